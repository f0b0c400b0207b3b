"""Does masking change what a model would have called? The same questions and seeds, unmasked and masked."""

from collections.abc import Sequence
from dataclasses import dataclass

from runtime.study.rows import Cell, share


@dataclass(frozen=True, slots=True)
class Comparison:
    """A masked strategy beside the unmasked one at the same temperature.

    Of the `num_valid` questions that had a valid call unmasked: the shares whose masked call is of the same
    tool, and has the same arguments; and the shares that are right unmasked and masked. `num_changed` have
    another call; `num_reordered` had their keys in another order than the schema's, which masks do not
    allow, and `num_reordered_changed` both. Of the `num_invalid` others: the shares whose masked call is of
    the right tool, and right altogether, which `num_rescued` are.
    """

    questions: str
    strategy: str
    temperature: float
    num_valid: int
    same_tool: float
    same_call: float
    right_unmasked: float
    right_masked: float
    num_invalid: int
    rescued_tool: float
    rescued_right: float
    num_changed: int
    num_reordered: int
    num_reordered_changed: int
    num_rescued: int


def compare(unmasked: Cell, masked: Cell) -> Comparison:
    """Pair the answers by question."""
    pairs = list(zip(unmasked.answers, masked.answers, strict=True))
    valid = [(one.verdict, other.verdict) for one, other in pairs if one.verdict.is_valid]
    changed = [one for one, other in valid if one.calls != other.calls]
    others = [other.verdict for one, other in pairs if not one.verdict.is_valid]
    return Comparison(
        masked.questions,
        masked.strategy,
        masked.temperature,
        num_valid=len(valid),
        same_tool=share([_names(one.calls) == _names(other.calls) for one, other in valid]),
        same_call=share([one.calls == other.calls for one, other in valid]),
        right_unmasked=share([one.is_right for one, _ in valid]),
        right_masked=share([other.is_right for _, other in valid]),
        num_invalid=len(others),
        rescued_tool=share([verdict.is_tool for verdict in others]),
        rescued_right=share([verdict.is_right for verdict in others]),
        num_changed=len(changed),
        num_reordered=sum(one.is_reordered for one, _ in valid),
        num_reordered_changed=sum(one.is_reordered for one in changed),
        num_rescued=sum(verdict.is_right for verdict in others),
    )


def _names(calls: Sequence[tuple[str, str]]) -> list[str]:
    return [name for name, _ in calls]
