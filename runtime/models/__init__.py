"""Models in the box, and how they are made."""

from pathlib import Path

DEMO_MODEL_FOLDER = Path(__file__).parent / "demo"
"""The demo model, in transformers' format; its README.md is the model card."""
