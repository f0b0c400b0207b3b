"""What a JSON text of a client may contain; `toolspecs/json_scan.py` counts it before it is decoded."""

from toolspecs.json_scan import ContentLimits

DEFAULT_LIMITS = ContentLimits()
"""What a body may hold, unless the settings say otherwise."""

INNER_LIMITS = ContentLimits(num_values=20_000, depth=200, num_long_numbers=1_000)
"""What the arguments of one call, a JSON text inside a body, may hold; chat templates recurse into them."""
