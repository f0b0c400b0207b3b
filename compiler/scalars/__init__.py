r"""Lowering of strings and numbers: what a schema says of one becomes the rules of its JSON texts.

Nothing here reads schemas: `compiler.lowering` does, and asks this package for strings and numbers.

One pattern from text to rules: a required property `k` with `{"type": "string", "pattern": "^[ab]+\"?$"}`,
one or more of a and b, then perhaps a quote.

1. `strings.StringConstraint(patterns=('^[ab]+"?$',))` holds what the schema says; `compiler.regular` makes
   its automaton. Without length bounds, `length_bounds.bounded_by_count` only groups the transitions:

       transitions = {0: {1: "ab"}, 1: {1: "ab", 2: '"'}, 2: {}}
       accepting = {1, 2}

2. `char_encoding.as_json` encodes each set of characters: a and b stand as they are, the quote is escaped.

3. `text_rules` writes a rule for each state, with an alternative for each transition, and the closing quote
   where a text may end. State 0 needs no rule: nothing leads to it, so it stands in the property's own rule.
   `(= [,\]}])` is a lookahead: what may follow the string in an object. With it the back end can precompute
   masks beyond the closing quote.

       root ::= "{\"k\"" (": " | ":") k "}"
       k ::= "\"" [a-b] text
       text ::= ("\"" | "\\\"" text_2 | [a-b] text) (= [,\]}])
       text_2 ::= ("\"") (= [,\]}])

Where the rest of a text is a number of characters of one set (a suffix, such as `[0-9]+$`), its rules come
from `counted_repetition` and all patterns share them. Numbers go the same way: `numbers`, then automata over
digits (`decimal_texts`, `multiples`), then rules.
"""
