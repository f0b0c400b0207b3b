"""Grammars: rules over Unicode text, which the lowering produces and xgrammar compiles.

`grammar` has the expressions and writes them as EBNF, `rules` names rules while they are made, `passes`
rewrites a grammar, `shortest` and `ambiguity` analyse it, `json_form` stores it, and `ebnf` reads one that a
client sends.

An example: the rule `digits` with one of the digits 1 to 7 in a JSON array is

    Grammar({"root": Rule(concat(Literal("["), RuleRef("digits"), Literal("]"))),
             "digits": Rule(CharClass.of((0x31, 0x37)))})

and its `ebnf`, the text for xgrammar,

    root ::= "[" digits "]"
    digits ::= [1-7]
"""
