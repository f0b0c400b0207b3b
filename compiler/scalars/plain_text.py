"""Lowering of plain texts that are a whole output: those of a pattern, or any one of a list.

Nothing follows such a text. A lookahead for a character that no text holds says so, which lets masks be
precomputed up to the text's end and beyond it: 5 us a mask instead of 150 us.
"""

from collections.abc import Sequence

from compiler.errors import UnsupportedKeyword, UnsupportedSchema
from compiler.grammar.grammar import EMPTY, CharClass, Grammar, Literal, Rule, choice
from compiler.grammar.rules import RuleTable
from compiler.grammar.writable import CONTROLS, check_writable
from compiler.regular.ecma import PatternError, parse
from compiler.scalars.repetition import NOTHING
from compiler.scalars.spelling import as_is
from compiler.scalars.string_constraint import StringConstraint
from compiler.scalars.strings import StringLowering

_NOTHING = CharClass.of(NOTHING)


def pattern_grammar(pattern: str) -> Grammar:
    """The texts that match an ECMA-262 pattern from their first character to their last.

    Raises:
        UnsupportedSchema: the pattern cannot be read, is not regular, too large, or matches nothing.
    """
    try:
        parse(pattern)  # by itself: what it leaves open must not be closed by what is put around it
        rules = RuleTable()
        constraint = StringConstraint(patterns=(f"^(?:{pattern})$",))
        lowering = StringLowering(rules, _NOTHING, EMPTY, name="plain", spell=as_is, left_out=CONTROLS)
        lowered = lowering.lower(constraint)
    except PatternError as error:
        raise UnsupportedSchema("/pattern", "", str(error)) from error
    except UnsupportedKeyword as error:
        raise UnsupportedSchema("/pattern", "", error.reason, error.suggestion) from error
    if lowered is None:
        raise UnsupportedSchema("/pattern", "", "no text matches it")
    return rules.grammar(Rule(lowered.expr))


def choice_grammar(choices: Sequence[str]) -> Grammar:
    """Exactly these texts.

    Raises:
        UnsupportedSchema: there is none, or one holds what cannot be written.
    """
    if not choices:
        raise UnsupportedSchema("/choices", "", "there is nothing to choose from")
    for index, text in enumerate(choices):
        check_writable(text, f"/choices/{index}")
    return Grammar({"root": Rule(choice(*map(Literal, choices)))})
