"""Fuzzing of whole requests: an embedded model with random weights, a gateway, and every feature of a request at once."""
