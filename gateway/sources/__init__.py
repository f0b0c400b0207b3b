"""Sources of tools: files, URLs and servers, and what a gateway reads of them for its clients."""
