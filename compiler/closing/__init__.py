"""Closing: how an output that the linker's matcher follows is completed in the fewest tokens, and when."""
