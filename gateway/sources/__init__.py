"""Reads tools from sources: files, URLs and MCP servers, for a user or, confined, for a gateway's clients."""
