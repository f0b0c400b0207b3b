"""Models in the box, and how they are made."""
