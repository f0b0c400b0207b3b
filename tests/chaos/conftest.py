"""A Redis for the short form."""

from redis_server import redis_url  # noqa: F401 - a fixture
