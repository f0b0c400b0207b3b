"""The plugin that runs inside vLLM: Callgate's grammars as its structured output."""
