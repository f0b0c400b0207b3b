"""Toolsets as clients register, import and list them.

The registry compiles every tool before it is stored. Imports keep the accepted tools of a source apart from
those that the source offers now. The MCP front shows a toolset to MCP clients.
"""
