"""The study: what masking buys, beside what else is done so that tool calls are valid.

Questions in `runtime.study.questions`; every strategy answers all of them through one engine.
"""
