"""One output of an external engine. Each token is checked before a client sees it.

The engine applies masks, and this verifies: it replays every token through its own matcher and budget closer.
A token that the grammar refuses is cut, with everything after it. Then the engine may continue after the
valid tokens, or the closer completes the output.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum, auto
from itertools import islice

from compiler.matcher import Matcher
from compiler.output_parts import CallEnd
from compiler.prepared_vocabulary import PreparedVocabulary
from runtime.draft import Draft
from runtime.engines.grammar_position import GrammarPosition
from runtime.errors import GenerationFailed, GrammarTooSlow
from runtime.events import ClosedBy, Event, FinishReason, GenerationStats
from runtime.jump_forward import JumpForward
from runtime.request import GenerationRequest
from runtime.scheduling.slow_grammars import MAX_SLOW_S
from runtime.text.detokenizer import TokenBytes
from runtime.transcript import Transcript, joined_deltas
from runtime.written_token import SampledToken, WrittenToken, forced_token, write

MAX_FORCED = 512
"""The most forced tokens that go with the prompt; the engine writes the rest of a longer beginning."""
MAX_LEFT_OUT = 8
"""The most tokens that are left out of one output for want of room; then the output ends."""
SLOW_S = 0.002
"""An output is slow once it has taken this much processor time to verify some tokens."""
NUM_QUICK = 16
"""Quick verifications after which an output is no longer slow; each further slow one doubles the number."""


@dataclass(frozen=True, slots=True)
class Verification:
    """How the outputs of one model are verified, whatever the request.

    With `checks_masks`, each token is also checked against its mask. A matcher alone accepts some tokens
    after which a guard allows nothing; an engine that applies no guards may write them.

    `counts_rescued`: the engine's log probabilities are those from before the mask. Where the request asked
    for them, the most probable token is compared with the mask, which counts the rescued ones.
    """

    prepared: PreparedVocabulary
    token_bytes: TokenBytes
    checks_masks: bool = False
    counts_rescued: bool = False


class OutputState(Enum):
    """Whether more tokens of the engine are wanted; if not, why."""

    OPEN = auto()
    REFUSED = auto()
    """The last token that came was refused, or the engine ended the output too early."""
    LEFT_OUT = auto()
    """The last token that came was left out: it began what the budget has no room for."""
    OVER_BUDGET = auto()
    """After the last token, the output could not be completed within its budget."""
    FINISHED = auto()


class _VerifyingTime:
    """The processor time that an output takes to verify. Waiting for other threads does not count."""

    def __init__(self) -> None:
        self.slow_s = 0.0
        """The time of all slow verifications."""
        self._num_slow = 0
        self._num_quick_wanted = 0
        """How many quick verifications must follow until the output is no longer slow."""

    @property
    def is_slow(self) -> bool:
        """Whether the next verification may take long."""
        return self._num_quick_wanted > 0

    def add(self, spent_s: float) -> None:
        """Count one verification."""
        if spent_s > SLOW_S:
            self.slow_s += spent_s
            self._num_slow += 1
            self._num_quick_wanted = NUM_QUICK << (self._num_slow - 1)
        elif self._num_quick_wanted:
            self._num_quick_wanted -= 1


class VerifiedOutput:
    """One choice of a request: takes an engine's tokens, and returns the events of the valid ones.

        events = output.write_forced(jump_forward)
        while not output.is_finished:
            output.resume()  # the engine continues prompt_ids + output.ids, by at most output.remaining
            while output.is_open and (tokens := more tokens):
                events += output.take(tokens)
            events += output.engine_stopped(is_cut=False, goes_on=False)
            if output.state is OutputState.OVER_BUDGET:
                events += output.close()

    Not thread-safe.
    """

    def __init__(
        self,
        request: GenerationRequest,
        choice: int,
        prompt_ids: list[int],
        max_tokens: int,
        verification: Verification,
        *,
        is_thinking: bool,
    ) -> None:
        constraint = request.constraint
        self.request = request
        self.choice = choice
        self.prompt_ids = prompt_ids
        self.max_tokens = max_tokens
        self.is_thinking = is_thinking
        self.position = GrammarPosition(request, verification.prepared, is_thinking=is_thinking)
        self.ids: list[int] = []
        self.state = OutputState.OPEN
        self.left_out_ids: set[int] = set()
        """All markers that were left out. The budget has no room for what they begin later either."""
        self.needs_search = False
        """Whether the token that came last was left for a thread, which should take it again."""
        self.is_exhausted = False
        """Whether the output ended because its engine could only have written a stop token."""
        self.num_refused = 0
        self.num_requests = 0
        """How many times an engine was asked to begin or continue it."""
        self.num_idle = 0
        """How many of the last requests brought no token."""
        self.refused_ids: list[int] = []
        """The tokens that were refused at this place, or left out here and may stand for text elsewhere."""
        self._num_left_out = 0
        self._num_at_resume = 0
        self._may_search = constraint is not None and constraint.may_search
        self._time = _VerifyingTime()
        self._fills = verification.prepared.timed_fills
        self._draft: Draft | None = None
        self._transcript = Transcript.of(request, choice, verification.token_bytes)
        self._stop_ids = frozenset(verification.prepared.vocabulary.stop_ids)
        self._marker_ids = verification.prepared.vocabulary.marker_ids
        self._ends_text = frozenset(request.stop_token_ids) if constraint is None else frozenset()
        self._checks_masks = verification.checks_masks
        self._num_forced = 0
        has_logprobs = constraint is not None and request.num_logprobs is not None
        self._num_rescued = 0 if verification.counts_rescued and has_logprobs else None
        """None once the first choice at one place is unknown."""
        self._was_complete = False

    @property
    def is_open(self) -> bool:
        """Whether more tokens of the engine are wanted."""
        return self.state is OutputState.OPEN

    @property
    def is_finished(self) -> bool:
        """Whether its last event has been returned."""
        return self.state is OutputState.FINISHED

    @property
    def is_slow(self) -> bool:
        """Whether its next tokens may take long to verify, so that a thread should do it."""
        return self._may_search or self._time.is_slow

    @property
    def remaining(self) -> int:
        """How many more tokens the budget allows."""
        return self.max_tokens - len(self.ids)

    def follow(self, draft: Draft) -> None:
        """Write the output as a draft, without a mask; call this before anything is written."""
        self.position.follow(draft)
        self._may_search = True  # each token is looked for in its mask, and no closer tells what takes long
        self._num_rescued = None
        self._draft = draft

    def write_forced(self, jump_forward: JumpForward | None = None) -> list[Event]:
        """Write the tokens that the grammar forces first; the engine computes them with the prompt."""
        if jump_forward is None or self.position.matcher is None:
            return []
        written = list(islice(self._forced(jump_forward, self.position.matcher), MAX_FORCED))
        self._num_forced += len(written)
        return [*self._feed(written), *self._end_if_done(written)]

    def take(self, tokens: Iterable[SampledToken], *, may_search: bool = True) -> list[Event]:
        """The events of an engine's tokens, up to a token that is refused or ends the output.

        Neighbouring deltas of the same text or call are joined, so that what came together is sent together.
        Unless it `may_search`, it stops before a token after which a completion takes long to find, and
        `needs_search` tells. The same holds for one that leads into a tool whose grammar is not compiled.

        Raises:
            GrammarTooSlow: following the grammar has taken too long.
        """
        self._fills.begin_for(self.request.client_id)
        start_s = self._fills.processor_s()
        events: list[Event] = []
        self.needs_search = False
        for token in tokens:
            self.needs_search = (
                self.is_open and not may_search and self.position.takes_long(token.token_id, self.remaining)
            )
            if self.needs_search or not self.is_open:
                break
            compiles, begun_s = self.position.must_compile(token.token_id), self._fills.processor_s()
            events += self._take(token)
            if compiles:  # that is bounded by itself, and done once for all outputs
                start_s += self._fills.processor_s() - begun_s
        self._time.add(self._fills.processor_s() - start_s)
        if self._time.slow_s > MAX_SLOW_S and not self.is_finished:
            raise GrammarTooSlow(MAX_SLOW_S)
        return joined_deltas(events)

    def resume(self) -> None:
        """Reopen the output: an engine is asked to continue after its valid tokens."""
        self.state = OutputState.OPEN
        self.num_requests += 1
        self.num_idle = self.num_idle + 1 if len(self.ids) == self._num_at_resume else 0
        self._num_at_resume = len(self.ids)

    def not_taken(self) -> None:
        """The engine had no room for the request that `resume` was called for, so that it does not count."""
        if len(self.ids) == self._num_at_resume:
            self.num_requests -= 1
            self.num_idle -= 1

    def engine_stopped(self, *, is_cut: bool, goes_on: bool) -> list[Event]:
        """The engine sends no more tokens. `is_cut`: it reached a limit, so it was not done by itself.

        If the grammar requires more tokens, this counts as a refused token, unless the output `goes_on` with
        another request, because the engine was asked for a part only.
        """
        if not self.is_open:
            return []
        if self.position.matcher is None:
            return self._end(FinishReason.LENGTH if is_cut else FinishReason.STOP)
        if self.position.matcher.is_completed() and not is_cut:
            return self._end(FinishReason.STOP)
        if not goes_on or len(self.ids) == self._num_at_resume:
            self._refuse()
        return []

    def close(self) -> list[Event]:
        """Complete the output in the shortest way; this takes long if many tokens are needed.

        A draft ends where it is. Call this when the output is over budget, or when the engine leaves the
        grammar again and again, or when no engine is there to be asked again.

        Raises:
            GenerationFailed: the grammar has no closer.
        """
        if self._draft is not None:
            return self._end(FinishReason.LENGTH)
        if self.position.closer is None or self.position.matcher is None:
            raise GenerationFailed(
                "the engine left the grammar again and again, and this grammar has no closer"
            )
        closed_by: ClosedBy | None = "budget" if self.state is OutputState.OVER_BUDGET else "verifier"
        has_no_room = self.state in {OutputState.OVER_BUDGET, OutputState.LEFT_OUT}
        if has_no_room and self.position.matcher.is_completed():
            closed_by = None  # nothing is missing: a token was left out that would have begun more
        events: list[Event] = []
        for token_id in self.position.closer.completion_ids(self.remaining):
            written = self._append(forced_token(token_id, self.request.num_logprobs))
            assert written is not None, "the grammar allows what its closer writes"
            self._num_forced += 1
            events += self._feed([written])
            if self.is_finished:  # by a stop string
                return events
        return [*events, *self._end(FinishReason.LENGTH, closed_by)]

    def _take(self, token: SampledToken) -> list[Event]:
        if not self._is_allowed(token.token_id):
            self._refuse(token)
            return []
        num_rescued = self._num_rescued_with(token)
        if self.position.exceeds_budget(token.token_id, self.remaining):
            self._leave_out(token.token_id)
        elif (written := self._append(self._as_asked(token))) is None:
            self._refuse(token)
        else:
            self._num_rescued = num_rescued
            return [*self._feed([written]), *self._end_if_done([written])]
        return []

    def _is_allowed(self, token_id: int) -> bool:
        """Whether a token is in the vocabulary and, if masks are checked, in the mask."""
        checks_mask = self._checks_masks and self.position.matcher is not None
        return self.position.allows(token_id) if checks_mask else self.position.has(token_id)

    def _num_rescued_with(self, token: SampledToken) -> int | None:
        """How many tokens are rescued if this one is written next; None if the engine does not tell."""
        if self._num_rescued is None or not token.top:
            return None
        first, _ = max(token.top, key=lambda choice: choice[1])
        return self._num_rescued + (first != token.token_id and not self.position.allows(first))

    def _as_asked(self, token: SampledToken) -> SampledToken:
        """The token with as many alternatives as the request asked for, the most probable first.

        vLLM sends the written one first. An engine may send log probabilities that nobody asked for, without
        end.
        """
        if self.request.num_logprobs is None:
            return token if token.logprob is None and not token.top else SampledToken(token.token_id)
        best = sorted(token.top, key=lambda choice: -choice[1])
        return replace(token, top=tuple(best[: self.request.num_logprobs]))

    def _forced(self, jump_forward: JumpForward, matcher: Matcher) -> Iterator[WrittenToken]:
        """Append and yield the tokens that the grammar forces, until another token is possible."""
        has_more = True
        while has_more:
            has_more = False
            for token_id, alternatives in jump_forward.tokens(matcher.forced_text()):
                if alternatives is not None and not self.position.allows_only(alternatives):
                    return
                if (written := self._append_forced(token_id)) is None:
                    return
                has_more = True
                yield written

    def _append_forced(self, token_id: int) -> WrittenToken | None:
        if self.remaining == 0 or not self.position.admits(token_id, self.remaining):
            return None
        return self._append(forced_token(token_id, self.request.num_logprobs))

    def _append(self, token: SampledToken) -> WrittenToken | None:
        """Append a token; None, and no change, if the grammar refuses it."""
        written = write(token, self.position.matcher, self.position.closer)
        if written is not None:
            self.ids.append(token.token_id)
            self.refused_ids.clear()
        return written

    def _feed(self, tokens: Iterable[WrittenToken]) -> list[Event]:
        """The events of written tokens; a stop string ends the output."""
        events = [event for token in tokens for event in self._transcript.feed(token)]
        return [*events, *self._end(None)] if self._transcript.is_stopped else events

    def _end_if_done(self, written: list[WrittenToken]) -> list[Event]:
        """The last events, if the output has ended with `written`."""
        if self.is_finished or not self.ids:
            return []
        last = self.ids[-1]
        if last in self._stop_ids or last in self._ends_text:
            return self._end(FinishReason.STOP)
        if self._draft is not None and self._draft.is_given_up:
            return self._end(FinishReason.STOP)
        if self._allows_no_more(written):
            self.is_exhausted = True
            return self._end(FinishReason.STOP)
        return self._end(FinishReason.LENGTH) if self.remaining == 0 else []

    def _allows_no_more(self, written: list[WrittenToken]) -> bool:
        """Whether only a stop token may follow; checked only after a call or an answer is complete."""
        was_complete, self._was_complete = self._was_complete, self.position.is_complete
        ends_call = any(isinstance(part, CallEnd) for token in written for part in token.parts or ())
        is_new = self._was_complete and (ends_call or not was_complete)
        return is_new and self.position.allows_only(self._stop_ids)

    def _refuse(self, token: SampledToken | None = None) -> None:
        if token is not None:
            self.refused_ids.append(token.token_id)
        self.state = OutputState.REFUSED
        self.num_refused += 1

    def _leave_out(self, token_id: int) -> None:
        """A token began what the budget has no room for, such as a call.

        If the output is complete without, such as free text, it goes on with another token, as in the
        embedded engine. If it is not, or its engine writes the token nevertheless, it is to be closed.
        """
        is_new = token_id not in self.left_out_ids and token_id not in self.refused_ids
        if not (is_new and self.position.is_complete and self._num_left_out < MAX_LEFT_OUT):
            self.state = OutputState.OVER_BUDGET
            return
        self.state = OutputState.LEFT_OUT
        self._num_left_out += 1
        if token_id in self._marker_ids:
            self.left_out_ids.add(token_id)
        else:
            self.refused_ids.append(token_id)

    def _end(self, reason: FinishReason | None, closed_by: ClosedBy | None = None) -> list[Event]:
        self.state = OutputState.FINISHED
        pending = self.position.matcher.pending_parts() if self.position.matcher is not None else ()
        stats = GenerationStats(
            num_prompt_tokens=len(self.prompt_ids),
            num_cached_tokens=0,
            num_output_tokens=len(self.ids),
            num_forced_tokens=self._num_forced,
            num_rescued_tokens=self._num_rescued,
            num_refused_tokens=self.num_refused,
        )
        return self._transcript.end(reason, stats, pending=pending, closed_by=closed_by)
