"""Tools from where they already are: OpenAPI documents, Python functions, MCP servers.

Everything here is pure: what a source says goes in, tools come out. `gateway/sources/source_readers.py` reads
files and URLs. A tool whose meaning cannot be kept is a `Fault` with its place in the source;
the others come out all the same, and the caller decides.
"""
