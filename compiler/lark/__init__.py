r"""Grammars for Lark: which texts they admit, as rules of ours.

`lark_source` reads a grammar with Lark's own loader, and `parts` keeps that from multiplying rules out.
`terminals` makes automata of its terminals, `lexing` finds out which terminals must not touch, and
`lark_lowering` makes rules of all of it.

**The reading.** A lexer splits a text into terminals before any rule is tried. At each place it takes the
longest text that any terminal matches which may stand there; this is how OpenAI reads these grammars. Lark's
own lexers differ in details. So we write only texts that all of them split alike: after a terminal comes no
character with which it, or another terminal that might have stood in its place, could go on. After a name
comes no letter, for example, although the rules would admit one:

    start: "let" NAME "=" NAME
    NAME: /[a-z]+/
    %ignore " "

admits `let a=b` and `leta = b`, and never reads `lets` as a word. Text that is ignored stands between
terminals only, once.
"""

from compiler.lark.lark_lowering import lower_lark

__all__ = ["lower_lark"]
