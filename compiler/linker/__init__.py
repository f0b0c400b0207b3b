r"""The linker: joins units into the grammar of a toolset's calls, and matches it without compiling anything.

The dispatcher follows free text, headers and what stands between calls; inside a unit, xgrammar's matcher
follows the arguments. Both fill masks over whole tokens, so a token may begin in one and end in the other.

An example: the tools are `pay`, with an integer `amount`, and `pay_all`. The syntax is `hermes`, and a call
is required. The vocabulary is all bytes and the tokens `", "arguments": {"`, `_all`, `20`, `}}` and
`}}\n</tool_call>\n<tool_call>`.

1.  `<tool_call>\n{"name": "pay` has been read. The position is `InFixedText`: a `DispatchState` and the text
    read since it was entered. Of the sorted headers, two begin with this text, one per tool. The mask allows
    what goes on along either: `"`, `_`, `_all`, and `", "arguments": {"`, which begins with the rest of
    pay's header.
2.  That last token comes. `DispatchState.step` finds that the header ends inside it: `HeaderMatch("pay",
    b'{"')`. The unit of `pay` takes those two bytes, and the position is `InUnit`, with an xgrammar matcher
    that has read `{"`. Now `amount": ` is forced, and jump-forward may write it.
3.  After `amount": ` and `20` the unit's own mask allows digits, `}` and `}}`. `BoundaryTokens` adds the
    tokens that end the unit and go on after it: the suffix `}}\n</tool_call>` of the last token completes
    the unit here, and its rest, `\n<tool_call>`, fits the `DispatchState` after every call.
4.  That token comes. The matcher accepts the suffix; the position is `InFixedText` again, after
    `\n<tool_call>`, and `\n{"name": "pay` is forced.
"""
