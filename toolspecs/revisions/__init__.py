"""Toolsets and their revisions in a store: checked, written, read, counted against quotas, and removed."""
