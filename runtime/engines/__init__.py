"""Inference engines that others make, with this project's grammars inside.

    mark             how a request names its grammar to the plugin inside an engine
    settings         what a plugin reads from the environment of its engine
    grammar_loader   links the grammar of a mark inside an engine, from units in the store
    masked_output    where one output of an engine is in its grammar
    vllm             the plugin that runs inside vLLM

`docs/engines.md` shows who does what.
"""
