"""Inference engines that others make, with this project's grammars inside.

    mark    how a request names its grammar to the plugin inside an engine
    vllm    the plugin that runs inside vLLM

`docs/engines.md` shows who does what.
"""
