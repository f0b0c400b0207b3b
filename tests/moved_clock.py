"""A clock that only a test moves."""

from datetime import UTC, datetime, timedelta


class Clock:
    """Tells the time of day if it is called, its timestamp, and the seconds that have passed."""

    def __init__(self) -> None:
        self.now = datetime(2026, 11, 22, tzinfo=UTC)
        self._passed = timedelta()

    def __call__(self) -> datetime:
        return self.now

    def timestamp(self) -> float:
        """The time of day in seconds since 1970."""
        return self.now.timestamp()

    def elapsed_s(self) -> float:
        """The seconds that have passed, also if the time of day was set back."""
        return self._passed.total_seconds()

    def pass_by(self, **time: float) -> None:
        """Let some time pass; the keywords are those of `timedelta`."""
        self.now += timedelta(**time)
        self._passed += timedelta(**time)
