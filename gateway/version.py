"""The version of the installed package."""

import importlib.metadata

VERSION = importlib.metadata.version("callgate")
