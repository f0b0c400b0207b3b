"""`callgate demo`: four toolsets of realistic tools, called in every mode, and every call checked."""
