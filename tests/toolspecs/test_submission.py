"""What is submitted is read once: it becomes every fault, or a checked toolset that the catalog trusts."""

import pytest
from opened_store import opened

from toolspecs import (
    Catalog,
    Fault,
    InvalidName,
    InvalidTools,
    LimitExceeded,
    Limits,
    Tool,
    Toolset,
    tool_parser,
)
from toolspecs.revisions import submission
from toolspecs.revisions.submission import UncheckedToolset, check_toolset, read_toolset
from toolspecs.revisions.toolset_contents import encode_toolset
from toolspecs.schemas import bundle as bundling

MONEY = "https://a.example/money"
DOCUMENTS = {MONEY: {"$defs": {"amount": {"type": "number"}, "code": {"type": "string"}}}}
PAY = {
    "name": "pay",
    "inputSchema": {"type": "object", "properties": {"x": {"$ref": f"{MONEY}#/$defs/amount"}}},
}
NOW = {"type": "function", "function": {"name": "now", "parameters": {"type": "object"}}}
BAD = {"name": "bad", "parameters": {"type": "dict"}}


def test_tools_carry_their_bundles_and_the_pointers_of_their_schemas():
    read = read_toolset(UncheckedToolset("t", [PAY, NOW], DOCUMENTS), Limits())
    assert [checked.schema_pointer for checked in read.tools] == [
        "/tools/0/inputSchema",
        "/tools/1/function/parameters",
    ]
    assert [checked.tool.documents for checked in read.tools] == [
        {MONEY: {"$defs": {"amount": {"type": "number"}}}},
        {},
    ]


def test_a_checked_toolset_is_the_same_as_one_that_was_put_together():
    checked = read_toolset(UncheckedToolset("t", [PAY, NOW], DOCUMENTS), Limits()).checked()
    tools = tuple(
        Tool(name, "", schema) for name, schema in (("pay", PAY["inputSchema"]), ("now", {"type": "object"}))
    )
    toolset = Toolset("t", tools, DOCUMENTS)
    assert checked.toolset == toolset
    assert (checked.digest, checked.content) == (toolset.digest, encode_toolset(toolset))
    assert check_toolset(toolset, Limits()) == checked


def test_faulty_tools_leave_the_others_to_be_compiled():
    read = read_toolset(UncheckedToolset("t", [BAD, NOW, BAD, NOW]), Limits())
    assert [checked.tool.name for checked in read.tools] == ["now"]
    with pytest.raises(InvalidTools) as caught:
        read.checked([Fault("now", "/tools/1/function/parameters", "type", "cannot be enforced")])
    assert [fault.pointer for fault in caught.value.faults] == [
        "/tools/0/parameters/type",
        "/tools/1/function/parameters",
        "/tools/2/parameters/type",
        "/tools/2",
        "/tools/3",
    ]


def test_faults_of_documents_come_first_and_leave_nothing_to_be_compiled():
    read = read_toolset(UncheckedToolset("t", [NOW, BAD], {"money": {}}), Limits())
    assert read.tools == ()
    with pytest.raises(InvalidTools) as caught:
        read.checked()
    assert [fault.pointer for fault in caught.value.faults] == [
        "/documents/money",
        "/tools/1/parameters/type",
    ]


@pytest.mark.parametrize(
    ("unchecked", "limits", "error"),
    [
        (UncheckedToolset("T", []), Limits(), InvalidName),
        (UncheckedToolset("t", {}), Limits(), InvalidTools),
        (UncheckedToolset("t", [NOW, PAY]), Limits(num_tools=1), LimitExceeded),
        (UncheckedToolset("t", [], DOCUMENTS), Limits(num_documents=0), LimitExceeded),
    ],
)
def test_what_cannot_be_read_at_all(unchecked, limits, error):
    with pytest.raises(error):
        read_toolset(unchecked, limits)


def test_a_toolset_too_large_as_a_whole_is_refused():
    read = read_toolset(UncheckedToolset("t", [NOW]), Limits(toolset_bytes=20))
    with pytest.raises(LimitExceeded) as caught:
        read.checked()
    assert caught.value.limit == "toolset_bytes"


async def test_each_tool_is_read_and_bundled_once_on_its_way_into_the_store(monkeypatch, tmp_path):
    calls = []

    def counted(module, name):
        function = getattr(module, name)

        def call(*arguments, **options):
            calls.append(name)
            return function(*arguments, **options)

        monkeypatch.setattr(module, name, call)

    counted(tool_parser, "check_schema")
    counted(submission, "document_faults")
    counted(submission, "encode_toolset")
    counted(bundling.Bundler, "bundle")
    async with opened(f"sqlite://{tmp_path}/store.db") as store:
        catalog = Catalog(store)
        checked = read_toolset(UncheckedToolset("t", [PAY, NOW], DOCUMENTS), catalog.limits).checked()
        write = await catalog.put_checked(checked)
        assert (await catalog.get("t")).toolset is checked.toolset
    assert write.is_created
    assert sorted(calls) == ["bundle"] * 2 + ["check_schema"] * 2 + ["document_faults", "encode_toolset"]
