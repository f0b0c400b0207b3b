"""Schemas of parameters: which are taken, in which draft each is read, and what their references reach."""
