"""Trains the adapter of SmolLM2: everyday requests about everyday tools, answered by calls; see README.md."""
