"""The linker: joins units into the grammar of a toolset's calls, and matches it.

Free text, headers and the way from call to call are its own; inside a unit, xgrammar's matcher goes on.
"""
