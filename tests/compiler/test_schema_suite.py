"""The official JSON Schema Test Suite: nothing it calls invalid is accepted."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from corpus import corpus

from compiler.errors import UnsupportedSchema
from compiler.schema import compile_schema

SEPARATORS = ((", ", ": "), (",", ":"))


def cases(draft: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for path in sorted(corpus("json-schema-test-suite", draft).glob("*.json")):
        for case in json.loads(path.read_text(encoding="utf-8")):
            yield path.stem, case


def with_dialect(schema: Any, dialect: str) -> Any:
    return {"$schema": dialect, **schema} if isinstance(schema, dict) else schema


@pytest.mark.parametrize(
    ("draft", "dialect", "fewest"),
    [
        ("draft2020-12", "https://json-schema.org/draft/2020-12/schema", 300),
        ("draft7", "http://json-schema.org/draft-07/schema#", 200),
    ],
)
def test_no_invalid_instance_is_accepted(draft, dialect, fewest, capsys):
    tally: Counter[str] = Counter()
    wrong = []
    for name, case in cases(draft):
        tally["schemas"] += 1
        try:
            compiled = compile_schema(with_dialect(case["schema"], dialect))
        except UnsupportedSchema as refusal:
            tally["refused"] += 1
            print(f"refused {name}: {case['description']}: {refusal}")
            continue
        for test in case["tests"]:
            texts = {json.dumps(test["data"], separators=separators) for separators in SEPARATORS}
            accepted = [text for text in texts if compiled.accepts(text)]
            tally["valid" if test["valid"] else "invalid"] += 1
            if test["valid"]:
                tally["valid accepted"] += bool(accepted)
                if not accepted:
                    print(f"rejects {name}: {case['description']}: {test['description']}: {texts}")
            elif accepted:
                wrong.append((name, case["description"], test["description"], accepted[0]))
    num_compiled = tally["schemas"] - tally["refused"]
    with capsys.disabled():
        print(
            f"\n{draft}: {num_compiled} of {tally['schemas']} schemas compile, {len(wrong)} of {tally['invalid']}"
            f" invalid instances accepted, {tally['valid accepted']} of {tally['valid']} valid ones"
        )
    assert wrong == []
    assert num_compiled >= fewest
