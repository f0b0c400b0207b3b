"""The HTTP front: wire formats, settings, telemetry, the composition root."""
