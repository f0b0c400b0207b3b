"""A cache entry: a tool's unit and its report, as stored."""

import hashlib
import hmac
import json
from dataclasses import asdict, dataclass

from compiler.errors import CorruptUnit
from compiler.report import EnforcementReport, Verdict
from compiler.report import Entry as ReportEntry
from compiler.unit import Unit
from compiler.vocabulary import Vocabulary

_MAC_BYTES = hashlib.sha256().digest_size


@dataclass(frozen=True)
class Entry:
    """A tool's unit, the verdict on its keywords, and how long it took to compile."""

    unit: Unit
    report: EnforcementReport
    compile_ms: float

    def to_bytes(self, vocabulary: Vocabulary) -> bytes:
        """A line of JSON, then the unit's bytes."""
        verdicts = [asdict(entry) for entry in self.report.entries]
        head = json.dumps({"report": verdicts, "compile_ms": self.compile_ms})
        return head.encode() + b"\n" + self.unit.to_bytes(vocabulary)

    @classmethod
    def from_bytes(cls, data: bytes, vocabulary: Vocabulary) -> "Entry":
        """Read what `to_bytes` wrote, once it is authenticated.

        Raises:
            CorruptUnit: of another version, vocabulary or xgrammar.
        """
        head, _, unit = data.partition(b"\n")
        try:
            content = json.loads(head)
            verdicts = [
                ReportEntry(v["pointer"], v["keyword"], Verdict(v["verdict"]), v["note"])
                for v in content["report"]
            ]
            compile_ms = float(content["compile_ms"])
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptUnit(f"not a stored report: {error}") from error
        return cls(Unit.from_bytes(unit, vocabulary), EnforcementReport(tuple(verdicts)), compile_ms)


def sealed(content: bytes, key: str, secret: bytes) -> bytes:
    """`content` behind an HMAC-SHA-256 over it and the key it is stored under."""
    return _mac(content, key, secret) + content


def unsealed(stored: bytes, key: str, secret: bytes) -> bytes:
    """What `sealed` wrapped.

    Raises:
        CorruptUnit: altered, cut short, or stored under another key or secret.
    """
    mac, content = stored[:_MAC_BYTES], stored[_MAC_BYTES:]
    if not hmac.compare_digest(mac, _mac(content, key, secret)):
        raise CorruptUnit("it is not authentic")
    return content


def _mac(content: bytes, key: str, secret: bytes) -> bytes:
    return hmac.digest(secret, key.encode() + b"\n" + content, "sha256")
