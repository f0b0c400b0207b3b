"""Grammars: rules over Unicode text, what is found out about them, and how those of others are read.

Every lowering writes one, with the plan of its guards, and xgrammar compiles it.
"""
