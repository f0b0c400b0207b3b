"""Starts the `callgate` command; an interrupt ends it without a traceback, even while it is imported."""

import sys

INTERRUPTED = 130
"""The exit status of a program that Ctrl-C ended, as shells know it."""


def main() -> None:
    """Run `gateway.cli`, whose import takes a second."""
    try:
        from gateway.cli import main as run  # noqa: PLC0415 - an interrupt while it is imported is caught

        run()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
