"""Hypothesis as every test uses it: how long an example takes says nothing about right or wrong."""

from hypothesis import HealthCheck, settings

settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")
