"""The plugin that runs inside SGLang: Callgate's grammars as its structured output."""
