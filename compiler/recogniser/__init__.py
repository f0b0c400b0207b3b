"""The recogniser: follows a text through a grammar and its guard, and knows a short way to complete it.

xgrammar's matchers fill masks, but do not tell where in the grammar a text is. The budget closer must know,
to end an output in time, and asks the recogniser.

Example: a grammar with the rules `root ::= "[" list "]"` and `list ::= "1" | list ",1"`, and the text `[1,`.

1. `network` turns each rule body into states. The first state of `root` reads `[`, the next one calls `list`,
   and the one after that reads `]`. Each knows the fewest bytes that complete its rule: 3, 2 and 1.
2. `parser_state` has read `[1`. In a stack frame of `list` its states are the end of the rule, and the state
   after the inner `list` that reads `,1`; the frame's caller waits with the state that reads `]`. Because the
   rule can end, that state is live too: `]` or `,` may follow.
3. After `,` one state is live, which reads `1`. Its cost is 1 byte, and the cheapest caller of its frame adds
   1: the shortest completion is `1]`.
4. If the grammar has a guard, `recogniser` also advances the guard's cursor. If the items had to be distinct,
   `1]` would repeat one, and `guarded_completion` would search for the next shortest text that does not.
"""
