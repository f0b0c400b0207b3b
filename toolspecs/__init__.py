"""Tools, toolsets and revisions, where they are stored, and the shapes they are read from."""
