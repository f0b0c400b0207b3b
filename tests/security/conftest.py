"""Tests of security have the gateway's fixtures."""

from gateway_fixtures import app, app_with, client, client_with, runtime, settings, spans

__all__ = ["app", "app_with", "client", "client_with", "runtime", "settings", "spans"]
