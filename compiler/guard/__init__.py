"""Guards: what no context-free grammar of reasonable size can hold, enforced beside it while decoding.

A guard enforces that the keys of an object are distinct, and the items of an array with `uniqueItems`: both
relate parts of a text to one another. It also enforces bounds on the lengths of strings (`string_bounds`):
rules could count characters too, but a large bound makes them expensive.

Example: the schema is `{"properties": {"tags": {"items": {"enum": ["a", "b"]}, "uniqueItems": true}}}`, the
text so far is `{"tags": ["a", "`, and a model is about to repeat itself: `{"tags": ["a", "a"]}`.

1. While the schema was lowered, `planner` collected the plan (`plan`): in the root, the key `tags` leads to a
   state that is distinct and whose items can run out.
2. `cursor` has read the text. It is in a string that so far is `"`, in an array that forbids repeats and has
   seen `{"a"}`, in the object that is the root; both are `open_containers`. So one seen element begins like
   this string; `a"` is what is left of it.
3. xgrammar's matcher fills the mask: by the grammar, `a` and `b` may follow, also the tokens `a"`, `b"` and
   `b"]}`.
4. `candidate_tokens` finds the candidates among them. The elements can run out, so these are all tokens with
   a quote in them, `a"`, `b"` and `b"]}`, and all that write a part of `a"`, which are `a` and `a"`.
5. `guard` advances the cursor over each. After `a"` the array would hold `"a"` twice, so there is no cursor,
   and the bit of `a"` goes out of the mask. After `a` nothing is repeated yet, but the only string that goes
   on is `"a"`: a dead end, which `dead_ends` finds by trying. The bit of `a` goes out too.
6. `b`, `b"` and `b"]}` stay. The model samples `b"]}`, and the matcher accepts it. The cursor after it is
   stored beside the matcher (`GuardState`) and dropped if the token is rolled back.

In an open object, rules take a declared key for an undeclared one too. There the guard gives the matcher a
mark after each declared key (`key_marks`), which no rule of an undeclared key reads.

If the strings had a `maxLength`, the guard would also remove every token that writes more characters than
are left (`token_lengths`). In a syntax that writes parameters in tags, `tagged_cursor` finds the JSON inside
them.
"""
