"""The cache of compiled grammars: an LRU cache in memory, then the store, then a compile worker.

One look-up of a toolset with one tool, through all tiers:

1. `GrammarCache.find_toolset` makes a `CompileJob` of the tool. Its key is a hash of the tool's parameters,
   the row of the call syntax, the version of the lowering and the vocabulary: `7d9f...`.
2. Memory: `CachedEntries.find_all` asks `LruCache.get("7d9f...")`, which has no entry. Otherwise the source
   would be `memory`.
3. Single flight: if another request of the same client is looking for the same key, this one waits for its
   result.
4. Store: `GrammarStore.load` reads `unit:7d9f...` and verifies its signature, an HMAC over key and content.
   With a valid entry the source would be `store`: the grammar need not be lowered again, only compiled by the
   back end.
5. Compile: the request's `CompileBudget` must not be used up, and the job waits for a turn of its client
   (`CompileQueue`). Then `GrammarStore.lease` takes the lock `lock:7d9f...`, so that only one replica
   compiles, and the store is asked once more, since another replica may have been first. A worker compiles
   the job (`compiler.isolation`), once for all clients that want it now; the entry is signed and stored for
   30 days.
6. The entry goes into memory, and `link` makes the toolset's grammar of its units. The source is `compiled`,
   the slowest source of any tool in the toolset.

Stored bytes are compressed and signed, and never pickled. An entry with a wrong signature is a miss.
"""
