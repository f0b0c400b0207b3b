"""Runs models in other projects' inference engines (*external engines*), with or without our plugin inside.

In the gateway:

    remote               the runtime of a model that external engines run
    replicas             chooses among the engines of a model
    replica              one of them: whether it takes requests, watched by the canary
    canary               shows that an engine's masks are in force
    engine_kinds         the kinds of engines, one row each
    client               what the clients of all engines share: HTTP to one server
    engine_transport     how bytes travel to and from it
    host_lookups         where it is
    event_stream         the events that it streams, within limits
    vllm_client          the client of a vLLM server
    sglang_client        the client of an SGLang server
    llama_client         the client of a llama-server
    completion_request   requests to an engine
    sent_grammars        how a request tells its engine the grammar of an output
    output_writer        has one engine, or one after another, write an output
    tries                which engines failed an output, and how it waits for room in full ones
    engine_answer        one answer of an engine, chunk by chunk
    verified_output      an output whose tokens are checked as they come
    grammar_position     where an output is in its grammar: what may come next
    delivery             delivers the events of an output to the client
    published_grammars   which grammars are in the store, where engines read them
    inline_grammars      grammars that travel with their requests
    request_mark         how a request names its grammar to the plugin inside an engine

Inside an engine:

    settings             the settings that a plugin reads from its engine's environment
    engine_hooks         the methods that a plugin replaces or calls, and the versions that it knows
    engine_grammars      from a mark to its masked output
    grammar_loader       links the grammar of a mark, from its units
    masked_output        the position of one output in its grammar, and its masks
    vllm                 the plugin that runs inside vLLM
    sglang               the plugin that runs inside SGLang
    plugin_folder        installs the plugin for an engine in another project's image

`docs/engines.md` shows who does what.
"""
