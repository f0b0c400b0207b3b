"""Lowering: from the canonical form that the front end made of a schema to the rules of a grammar.

Objects, arrays, unions and lists of values; strings and numbers are left to `scalars`.
"""
