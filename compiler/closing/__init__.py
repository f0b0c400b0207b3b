r"""Closing: how an output is completed in the fewest tokens when its budget runs out.

An example: the tool `mail` with a string `to`, syntax `hermes`, and a vocabulary in which all bytes and
`}}\n</tool_call>` are tokens. The output so far is `<tool_call>\n{"name": "mail", "arguments": {"to": "Jo`,
and the model samples `h`.

1.  With 100 tokens left, `admits` reads `h` and asks the position after it for `max_completion_bytes`.
    The recogniser knows without searching that some completion has at most 28 bytes. A byte is at most one
    token, and 28 is below 99: the token is admitted.
2.  With 3 tokens left, the bound does not help. `admits` asks for the `completions` after `h`. There is one:
    `"}}\n</tool_call>`, the end of the string and of the call, and the closing of the syntax, which is empty
    for `hermes`. `Segmentation` finds the fewest tokens that spell it: `"` and `}}\n</tool_call>`. Two tokens
    are left after `h`, so it is admitted.
3.  With 2 tokens left, `h` is refused. The engine drops it, takes `completion_ids`, which are these two
    tokens, and ends the output with a complete call.
"""
