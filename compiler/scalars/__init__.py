"""Lowering of strings and numbers: from what is said of one to the rules of its texts.

Nothing here knows of schemas: `lowering` reads those, and asks this for their strings and numbers.
"""
