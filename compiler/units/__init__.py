"""Units: a tool's arguments compiled for one vocabulary, their matcher by itself, and how they are stored.

A unit is made of a lowered grammar; the linker joins units. Response formats are compiled and stored alike.
"""
