"""Units: what is compiled for one vocabulary, how it is matched by itself, and how it is stored.

Made of a lowered grammar, and joined by the linker.
"""
