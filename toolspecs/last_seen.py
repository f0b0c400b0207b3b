"""What references to revisions meant when the store last answered, for while it is out."""

import logging

from toolspecs.codec import Record
from toolspecs.errors import StoreUnavailable
from toolspecs.names import ToolsetReference
from toolspecs.recent import Recent

SEEN_BYTES = 4 * 1024 * 1024
SEEN_RECORD_BYTES = 1024
"""What one takes, about."""

_log = logging.getLogger(__name__)


class LastSeen:
    """Records by reference, as many as there is room for; warns once an outage."""

    def __init__(self) -> None:
        self._seen: Recent[Record] = Recent(SEEN_BYTES)
        self._is_out = False

    def keep(self, reference: ToolsetReference, record: Record) -> None:
        """The store has answered."""
        self._is_out = False
        self._seen.keep(str(reference), record, SEEN_RECORD_BYTES)

    def get(self, reference: ToolsetReference, error: StoreUnavailable) -> Record:
        """What a reference meant last; raises `error` where that is not known."""
        record = self._seen.get(str(reference))
        if record is None or record.is_deleted:
            raise error
        if not self._is_out:
            self._is_out = True
            _log.warning("toolsets are served as they were last seen: %s", error)
        return record
