"""The front end: from a JSON Schema to its canonical form, and the places that reports and refusals name."""
