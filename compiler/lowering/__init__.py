r"""Lowering: the canonical form of a schema in, a grammar of the JSON texts of its values out.

Objects, arrays, unions and listed values are lowered here, strings and numbers in `compiler.scalars`. Beside
the grammar, `Lowering` fills the enforcement report and the plan of what guards must check.

The example of `compiler.frontend` goes on: its canonical form, an object with the optional key `unit` and the
required key `days`, becomes

    root ::= "{" ("\"unit\": " r_0_unit ", " | "") "\"days\": " digits "}"
    r_0_unit ::= "\"C\"" | "\"F\""
    digits ::= [1-7]

`unit` comes first, as in the document. Separators are those of `json.dumps` (`JsonFormatting`). The report
says `narrowed` for `properties`, because a JSON object could have its keys in any order, and `exact` for all
other keywords.
"""
