"""What every test has: Hypothesis without deadlines, since times say nothing of right or wrong; rare garbage collection.

What PyTorch and transformers allocate stays to the end. To look through it again and again took a fifth of the suite's
time.
"""

import gc

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Leave what the imports made to itself, and look through the rest seldom."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
