"""Makes tools from OpenAPI documents, Python functions and MCP servers.

Nothing here does I/O; `gateway/sources/source_readers.py` reads the files and URLs. A tool whose meaning
cannot be kept becomes a `Fault` with its place in the source. The other tools are returned all the same, and
the caller decides.
"""
