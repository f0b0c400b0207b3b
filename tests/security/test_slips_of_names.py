"""However many fields of a request have wrong names, only some are compared with the right ones."""

import msgspec
import pytest

from gateway.errors import InvalidField
from gateway.wire import field_reader
from gateway.wire.field_reader import MAX_IGNORED, MAX_SLIPS, FieldReader
from gateway.wire.tools_and_calls import read_inline_tools
from toolspecs.errors import InvalidTools

SLIPS = [f"descriptio{chr(0x4E00 + number)}" for number in range(2_000)]


class Message(msgspec.Struct, forbid_unknown_fields=True):
    """A message of a request."""

    description: str = ""


class Body(msgspec.Struct, forbid_unknown_fields=True):
    """A request."""

    messages: list[Message]


@pytest.fixture
def compared(monkeypatch):
    """The names that were compared."""
    names = []
    compare = field_reader.near_matches

    def counted(name, *args, **options):
        names.append(name)
        return compare(name, *args, **options)

    monkeypatch.setattr(field_reader, "near_matches", counted)
    return names


@pytest.mark.parametrize(
    "messages",
    [[dict.fromkeys(SLIPS, "x")], [{name: "x"} for name in SLIPS], [{SLIPS[0]: "x"}] * 2_000],
    ids=["one object", "many objects", "one name"],
)
def test_slips_of_a_body_are_compared_a_few_times(messages, compared):
    with pytest.raises(InvalidField, match=f"{SLIPS[0]}.*did you mean 'description'"):
        FieldReader().convert({"messages": messages}, Body)
    assert len(compared) <= MAX_SLIPS


def test_slips_of_tools_are_compared_a_few_times(compared):
    tools = [{"name": f"t{number}", "parameters": {}, name: "x"} for number, name in enumerate(SLIPS)]
    with pytest.raises(InvalidTools):
        read_inline_tools(tools, FieldReader())
    assert len(compared) <= MAX_SLIPS


def test_names_that_are_left_out_are_compared_a_few_times(compared):
    messages = [{f"qwertz{number}": 1} for number in range(2_000)]
    with pytest.raises(InvalidField, match=f"more than {MAX_IGNORED} different fields"):
        FieldReader().convert({"messages": messages}, Body)
    assert len(compared) <= MAX_IGNORED + 1
