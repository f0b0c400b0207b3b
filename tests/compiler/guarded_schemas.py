"""Schemas whose texts guards keep from repeating, and texts that repeat."""

STRINGS = {"type": "array", "uniqueItems": True, "items": {"type": "string"}}
POINT = {
    "type": "object",
    "properties": {"x": {"enum": [0, 1]}, "y": {"type": "boolean"}},
    "required": ["x", "y"],
    "additionalProperties": False,
}
GUARDED = {
    "strings": STRINGS,
    "short strings": {**STRINGS, "items": {"type": "string", "maxLength": 1}, "minItems": 3},
    "pattern": {**STRINGS, "items": {"type": "string", "pattern": "^[ab]{1,2}$"}, "minItems": 6},
    "escapes": {**STRINGS, "items": {"enum": ['"', "\\", "é", "\n"]}, "minItems": 4},
    "integers": {"type": "array", "uniqueItems": True, "items": {"type": "integer"}, "minItems": 2},
    "digits": {**STRINGS, "items": {"type": "integer", "minimum": 8, "maximum": 12}, "minItems": 5},
    "numbers": {**STRINGS, "items": {"type": "number"}, "minItems": 2},
    "all of an enum": {**STRINGS, "items": {"enum": ["a", "ab", "b", 1, 10, None, True]}, "minItems": 7},
    "objects": {**STRINGS, "items": POINT, "minItems": 4},
    "nested": {**STRINGS, "items": {**STRINGS, "items": {"enum": [1, 2]}}, "minItems": 5},
    "anything": {"type": "array", "uniqueItems": True, "minItems": 2},
    "prefix": {
        "prefixItems": [{"const": 1}, {"enum": [1, 2]}],
        "uniqueItems": True,
        "type": "array",
        "minItems": 2,
    },
    "contains": {**STRINGS, "items": {"enum": [1, 2, 3]}, "contains": {"enum": [2, 3]}, "minContains": 2},
    "inside": {
        "type": "object",
        "properties": {"a": STRINGS, "b": {"type": "array"}},
        "required": ["a", "b"],
    },
    "one of two": {"anyOf": [STRINGS, {"type": "array", "items": {"type": "integer"}}]},
    "map": {"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 3},
    "distinct maps": {
        **STRINGS,
        "items": {"type": "object", "additionalProperties": {"type": "string"}},
        "minItems": 4,
    },
    "map that runs out": {
        "type": "object",
        "patternProperties": {"^[ab]{1,2}$": {"type": "integer"}},
        "additionalProperties": False,
        "minProperties": 6,
    },
    "short keys": {"type": "object", "propertyNames": {"maxLength": 1}, "minProperties": 2},
    "pairs": {
        **STRINGS,
        "items": {
            "type": "array",
            "prefixItems": [{"enum": [1, 2]}, {"enum": [1, 2]}],
            "items": False,
            "minItems": 2,
        },
        "minItems": 4,
    },
    "three deep": {
        **STRINGS,
        "minItems": 2,
        "items": {**STRINGS, "minItems": 2, "items": {**STRINGS, "items": {"const": 7}}},
    },
    "few keys": {
        "type": "object",
        "properties": {"a": {"const": 1}},
        "propertyNames": {"pattern": "^[az]$"},
        "additionalProperties": {"const": 1},
        "minProperties": 2,
    },
    "maps of lists": {
        "type": "object",
        "patternProperties": {"^[ab]$": {**STRINGS, "items": {"enum": ["x", "y", "z"]}}},
        "additionalProperties": False,
    },
    "lengths": {
        **STRINGS,
        "items": {
            "type": "object",
            "properties": {"k": {"enum": ["a", "b", "ab"]}, "s": {"type": "string", "maxLength": 9}},
            "required": ["k"],
            "additionalProperties": False,
        },
        "uniqueItems": False,
        "contains": {"required": ["s"]},
    },
    "lengths in maps": {"type": "object", "additionalProperties": {"type": "string", "maxLength": 8}},
    "open": {"type": "object", "properties": {"a": {"type": "null"}}, "minProperties": 2, "maxProperties": 3},
}
REPEATS = {
    "strings": ['["a","a"]', '["a","\\u0061"]', '["a", "b", "a"]', '["\\n","\\u000a"]'],
    "numbers": ["[1,1]", "[0.5,0.5]"],
    "anything": ["[[],[]]", '[{"a":1},{"a":1}]', "[null,null]", '["é","\\u00e9"]', '["😀","\\ud83d\\ude00"]'],
    "objects": ['[{"x":0,"y":true},{"x":0,"y":true},{"x":1,"y":true},{"x":1,"y":false}]'],
    "inside": ['{"a":["x","x"],"b":[]}', '{"a":[],"b":[{"k":1,"k":1}]}', '{"a":[],"b":[],"c":1,"c":1}'],
    "map": [
        '{"a/b":1,"a\\/b":2}',
        '{"\\n":1,"\\u000a":2}',
        '{"q\\"":1,"q\\"":2}',
        '{"a":1,"b":1,"a":2}',
        '{"a":1,"b":1,"c":2,"\\u0061":2}',
    ],
}

INTEGER, STRING, NULL = {"type": "integer"}, {"type": "string"}, {"type": "null"}
AB = {"a": INTEGER, "b": STRING}
AMBIGUOUS_KEYS = {
    "alternatives": {
        "anyOf": [
            {"type": "object", "properties": AB},
            {"type": "object", "properties": {"a": STRING}, "required": ["a"]},
        ]
    },
    "a listed object": {
        "properties": {"b": {"anyOf": [{"const": {"a": 1}}, {"type": "object", "properties": {"a": STRING}}]}}
    },
    "anything": {
        "type": "object",
        "patternProperties": {"^a": {"type": "object", "properties": {"a": INTEGER}}},
        "properties": {"ab": True},
    },
    "patterns": {
        "type": "object",
        "properties": {"a": INTEGER},
        "patternProperties": {"^b": {"type": "object", "properties": {"a": INTEGER}}},
    },
    "needing": {"type": "object", "properties": AB, "dependentRequired": {"a": ["b", "c"]}},
    "names": {"type": "object", "properties": AB, "propertyNames": {"maxLength": 3}},
    "distinct": {"type": "array", "uniqueItems": True, "items": {"type": "object", "properties": AB}},
    "a failing member": {
        "type": "object",
        "properties": AB,
        "not": {"additionalProperties": {"type": "integer"}, "properties": AB},
    },
    "undeclared beside": {
        "anyOf": [
            {"type": "object", "properties": AB},
            {"type": "object", "properties": {"c": STRING}, "additionalProperties": NULL},
        ]
    },
    "many beside": {
        "anyOf": [
            {"type": "object", "properties": {f"k{i}": INTEGER for i in range(12)}},
            {"type": "object", "properties": {"a": STRING}},
        ]
    },
    "closed beside": {
        "anyOf": [
            {"type": "object", "properties": AB},
            {"type": "object", "properties": {"a": STRING}, "additionalProperties": False},
        ]
    },
    "a map beside": {
        "anyOf": [
            {"type": "object", "properties": AB},
            {"type": "object", "additionalProperties": NULL, "minProperties": 2},
        ]
    },
    "patterns beside": {
        "anyOf": [
            {"type": "object", "properties": AB, "required": ["b"]},
            {"type": "object", "patternProperties": {"^a": NULL}, "properties": {"b": NULL, "c": NULL}},
        ]
    },
    "any array beside": {"properties": {"a": {"properties": AB}, "b": {"type": ["array", "object"]}}},
}
"""Here a guard alone cannot tell which object it reads."""
