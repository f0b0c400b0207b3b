"""The engine that decodes under masks."""
