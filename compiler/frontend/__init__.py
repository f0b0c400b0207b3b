"""The front end: a JSON Schema document in, its canonical form out, or a refusal that says what is wrong.

The canonical form (`canonical_form`) has no `allOf`, `not`, `if` or `dependent*` any more, so each part of it
can be lowered by itself. `SourceMap` leads back from it to the document, for the order of keys and for
pointers in messages; `Reporter` collects what becomes of each keyword.

An example. In goes

    {"allOf": [
        {"type": "object",
         "properties": {"unit": {"enum": ["C", "F", "K"]}, "days": {"type": "integer", "minimum": 1}},
         "additionalProperties": false},
        {"required": ["days"],
         "properties": {"days": {"maximum": 7}, "unit": {"not": {"const": "K"}}}}]}

and out comes an `ObjectView`, which as a schema would be

    {"type": "object", "required": ["days"], "propertyNames": {"enum": ["days", "unit"]},
     "properties": {"days": {"type": "integer", "minimum": 1, "maximum": 7}, "unit": {"enum": ["C", "F"]}}}

Its keys are sorted. `SourceMap(document).declared(root)` is `("unit", "days")`, the order of the document.
`compiler.lowering` goes on from here.
"""
