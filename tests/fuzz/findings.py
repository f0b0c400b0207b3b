"""What fuzzing found, as a test to paste and as JSON."""

import json
import zlib
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

_TESTS = {
    "schemas": """\
    compiled = compile_schema({subject[schema]!r})
    assert not compiled.accepts({subject[text]!r})
""",
    "patterns": """\
    compiled = compile_schema({subject[schema]!r})
    assert not compiled.accepts({subject[text]!r})
""",
}
_REPLAYED = """\
    outcome = KINDS[{kind!r}].check({subject!r}, random.Random({seed!r}), Harness())
    assert outcome.findings == []
"""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that must not be: which kind of case, what does not hold, the subject, and what was seen.

    `signature` tells apart what shrinking must not turn into each other. `subject` may have a `text`, which is
    then all that is looked at.
    """

    kind: str
    rule: str
    subject: dict[str, Any]
    detail: str
    seed: str = ""

    @property
    def signature(self) -> tuple[str, str]:
        """What stays the same while the subject shrinks: the rule, and who complains first."""
        return self.rule, self.detail.partition(":")[0]

    def as_test(self) -> str:
        """A test that fails as long as the cause is there."""
        template = _TESTS.get(self.kind, "") if "text" in self.subject else ""
        name = f"test_found_by_fuzzing_{zlib.crc32(json.dumps(self.subject).encode())}"
        body = (template or _REPLAYED).format(kind=self.kind, subject=self.subject, seed=self.seed)
        return f"def {name}():\n    # {self.rule}. {self.detail[:300]!r}\n{body}"

    def write(self, folder: Path, name: str) -> None:
        """Write it as JSON, and as a test."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.json").write_text(json.dumps(asdict(self), indent=1))
        (folder / f"{name}.py").write_text(self.as_test())


@dataclass(slots=True)
class Outcome:
    """What one case showed: counts of what was looked at, and findings."""

    counts: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
