"""Isolation: schemas are hostile, and compiled in worker processes within limits of time and memory.

In front of it stands the cache, which asks only for what it has not.
"""
