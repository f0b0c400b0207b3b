"""Runs models in other projects' inference engines, with or without our plugin inside.

In the gateway:

    remote               the runtime of a model that engines elsewhere run replicas             chooses among
    the engines of a model, and watches them canary               shows that an engine's masks are in force
    client               what clients of all engines share: HTTP to one server vllm_client          a vLLM
    server sglang_client        an SGLang server llama_client         a llama-server completion_request   what
    an engine is asked for sent_grammars        how a request tells its engine the grammar of an output
    output_writer        has one engine, or one after another, write an output verified_output      an output
    whose tokens are checked when they come delivery             how its events get to the client
    published_grammars   which grammars the store has for engines to read mark                 how a request
    names its grammar to the plugin inside an engine

Inside an engine:

    settings             what a plugin reads from the environment of its engine engine_hooks         the
    methods that a plugin replaces or calls, and the versions that it knows engine_grammars      from a mark
    to its masked output grammar_loader       links the grammar of a mark, from units in the store
    masked_output        the position of one output in its grammar, and its masks vllm                 the
    plugin that runs inside vLLM sglang               the plugin that runs inside SGLang plugin_folder
    installs the plugin beside an engine in another project's image

`docs/engines.md` shows who does what.
"""
