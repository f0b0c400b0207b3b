"""Models that need no download: the demo model, whose weights lie here, and the random model."""

from pathlib import Path

DEMO_MODEL_FOLDER = Path(__file__).parent / "demo"
"""The demo model, in transformers' format; its README.md is the model card."""
