"""Faults of xgrammar that Callgate works around, and the versions that have them."""

from importlib.metadata import version

import pytest

mended_in_0_2_9 = pytest.mark.skipif(
    tuple(map(int, version("xgrammar").split(".")[:3])) >= (0, 2, 9),
    reason="xgrammar 0.2.9 mended it; the way around it can go once pyproject.toml asks for that version",
)
"""Marks a test that shows a fault of xgrammar 0.2.8."""
