"""The source map follows references as validators do: keys come in the order in which they are declared."""

import pytest
from soundness.schemas import DIALECTS

from compiler import compile_schema
from compiler.frontend.source_map import SourceMap

HERE = "https://example.com/schemas/"
PAIR = {"properties": {"b": {"type": "null"}, "a": {"type": "null"}}, "additionalProperties": False}
REFERRING = {
    "an absolute name": {
        "$id": f"{HERE}root",
        "properties": {"z": {"$ref": f"{HERE}pair"}},
        "$defs": {"p": {"$id": f"{HERE}pair", **PAIR}},
    },
    "a relative name": {
        "$id": f"{HERE}root",
        "properties": {"z": {"$ref": "pair"}},
        "$defs": {"p": {"$id": "pair", **PAIR}},
    },
    "an absolute reference to a relative name": {
        "$id": f"{HERE}root",
        "properties": {"z": {"$ref": f"{HERE}parts/pair"}},
        "$defs": {"p": {"$id": "parts/pair", **PAIR}},
    },
    "relative to a name that is relative": {
        "$id": f"{HERE}root",
        "properties": {"z": {"$ref": "parts/all"}},
        "$defs": {"p": {"$id": "parts/all", "$ref": "pair", "$defs": {"q": {"$id": "pair", **PAIR}}}},
    },
    "a pointer inside a named schema": {
        "$id": f"{HERE}root",
        "properties": {"z": {"$ref": "all"}},
        "$defs": {"p": {"$id": "all", "$ref": "#/$defs/pair", "$defs": {"pair": PAIR}}},
    },
    "an anchor in a named schema": {
        "$id": f"{HERE}root",
        "properties": {"z": {"$ref": "all#pair"}},
        "$defs": {
            "o": {"$anchor": "pair", "type": "null"},
            "p": {"$id": "all", "$defs": {"q": {"$anchor": "pair", **PAIR}}},
        },
    },
    "an anchor of draft 7": {
        "$schema": DIALECTS[7],
        "properties": {"z": {"$ref": "#pair"}},
        "definitions": {"p": {"$id": "#pair", **PAIR}},
    },
    "a relative name of draft 4": {
        "$schema": DIALECTS[4],
        "id": f"{HERE}root",
        "properties": {"z": {"$ref": "pair"}},
        "definitions": {"p": {"id": "pair", **PAIR}},
    },
}


@pytest.mark.parametrize("schema", REFERRING.values(), ids=REFERRING)
def test_keys_of_what_is_referred_to_keep_their_order(schema):
    compiled = compile_schema(schema)
    assert compiled.accepts('{"z": {"b": null, "a": null}}')
    assert not compiled.accepts('{"z": {"a": null, "b": null}}')


def test_each_schema_is_asked_once_whether_an_object_satisfies_it():
    """Each definition refers to the next one several times, so there are many ways to the last one."""
    definitions = {f"d{i}": {"allOf": 5 * [{"$ref": f"#/$defs/d{i + 1}"}]} for i in range(6)}
    schema = {"$defs": {**definitions, "d6": {}}, "anyOf": [{"$ref": "#/$defs/d0"}, {}]}
    source_map = SourceMap(schema)
    asked = []
    assert source_map.without_excluded(source_map.root, asked.append) is source_map.root
    assert sorted(asked) == sorted(set(source_map.root.pointers))
