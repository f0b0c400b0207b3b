"""Finds the tools that have words in common with a request."""
