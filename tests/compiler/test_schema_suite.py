"""The official JSON Schema Test Suite: nothing it calls invalid is accepted."""

import pytest
from soundness.comparison import outcomes, score
from soundness.corpora import sample


@pytest.mark.parametrize(
    ("corpus", "fewest", "share"),
    [
        ("suite-2020-12", 355, 0.95),
        ("suite-7", 238, 0.96),
        ("formats-2020-12", 28, 0.65),
        ("formats-7", 26, 0.65),
    ],
)
def test_no_invalid_instance_is_accepted(corpus, fewest, share, capsys):
    cases = sample(corpus)
    total = score(cases, outcomes("callgate", cases, workers=0))
    with capsys.disabled():
        print(f"\n{corpus}: {' | '.join(total.row)}")
    assert total.wrong == []
    assert total.tally["compiled"] >= fewest
    assert total.tally["valid accepted"] >= share * total.tally["valid"]
