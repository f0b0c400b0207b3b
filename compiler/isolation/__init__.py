"""Isolation: schemas are hostile input; worker processes compile them within limits of time and memory.

One schema through it, a tool's `{"type": "object", "properties": {"s": {"pattern": "(a|aa)+$"}}}`:

1. The grammar cache has no entry for it. It waits for a turn of the client (`compile_queue`), and
   calls `WorkerPool.run(CompileJob.tool(...), prepared, is_long=False)` (`pools`). `CompileJob.check` refuses
   schemas that are too large or too deep before they go anywhere.
2. No worker is free, so the pool asks the zygote for one. The zygote (`zygote`) is a process that has
   imported the compiler, read the vocabulary and compiled the rules that most schemas share (`priming`). It
   forks: in 15 ms there is a worker that shares all of that. The zygote itself never sees a schema.
3. The worker limits its memory, gives up files, network and other processes (`confinement`), and reads the
   job from its socket: the digest of the vocabulary and a JSON array, `["tool", {"type": "object", ...},
   "hermes"]`. It starts two timers, one on processor time and one on the clock (`limits.CompileLimits`),
   and compiles.
4. The answer is `+` and the bytes of a `CacheEntry`, or `-` and a refusal as JSON: pointer, keyword, reason
   and suggestion. A fault of the compiler is `?` with its traceback, which the pool logs. The worker then
   waits for the next job.
5. If a timer ends the worker or the system kills it, the pool sees the socket close, and forks another worker
   for the next job. If this was a first try, it raises `TakesLonger`, and the cache waits for a turn of the
   long jobs. Otherwise it raises `LimitReached`, which is a refusal of this one schema.

The cache asks for nothing that it already has; what one request may ask for is its `limits.CompileBudget`.
"""
