"""JSON Schemas and toolsets in, token masks out."""
