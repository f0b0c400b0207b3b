"""The transcript of one choice: makes events of its tokens and of the parts that the matcher found."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from compiler.constraint import Constraint, ParameterTypes
from compiler.output_parts import ArgumentsPart, CallEnd, CallStart, OutputPart, TextPart, ThoughtPart
from compiler.syntax import Syntax
from runtime.events import (
    ArgumentsDelta,
    CallStarted,
    ClosedBy,
    Event,
    Finished,
    FinishReason,
    GenerationStats,
    TextDelta,
    ThoughtDelta,
    TokenLogprob,
)
from runtime.request import GenerationRequest
from runtime.text.detokenizer import Detokenizer, StopScanner, TokenBytes
from runtime.text.parameters import ParameterReader
from runtime.text.places import PlaceReader
from runtime.written_token import SampledToken, WrittenToken


class Transcript:
    """Makes events of what a sequence writes; one per choice.

    Arguments that the `syntax` writes as tagged parameters become JSON. `types_of` gives the types of one
    tool's parameters (see `compiler.units.unit.Unit`). Stop strings are searched in text only, never in
    calls, and not among the first `min_tokens` tokens. Tokens of `hidden_ids` end the output and are no part
    of its text. With `is_inspected` each token is an event too, after those that tell its place.
    `text_is_json`: the text is part of one JSON value.
    """

    def __init__(
        self,
        choice: int,
        token_bytes: TokenBytes,
        *,
        syntax: Syntax | None,
        stop: Sequence[str],
        min_tokens: int = 0,
        types_of: Callable[[str], ParameterTypes] | None = None,
        hidden_ids: Collection[int] = (),
        is_inspected: bool = False,
        text_is_json: bool = False,
    ) -> None:
        self.num_calls = 0
        self.num_thought_tokens = 0
        self._num_left = min_tokens
        """How many more tokens come before the first that may complete a stop string."""
        self._choice = choice
        self._token_bytes = token_bytes
        self._syntax = syntax
        self._types_of = types_of
        self._hidden_ids = hidden_ids
        self._detokenizer = Detokenizer()
        self._kind: type[OutputPart] = TextPart
        self._parameters: ParameterReader | None = None
        self._scanner = StopScanner(stop)
        self._logprobs: list[TokenLogprob] = []
        """The log probabilities of text that no event has sent yet."""
        self._places = PlaceReader(choice, token_bytes, text_is_json=text_is_json) if is_inspected else None
        self._pending_logprobs: list[TokenLogprob] = []
        """The log probabilities of tokens that the matcher holds back: text, or the beginning of a call."""

    @classmethod
    def of(cls, request: GenerationRequest, choice: int, token_bytes: TokenBytes) -> "Transcript":
        """The transcript of one choice of a request."""
        constraint: Constraint | None = request.constraint
        return cls(
            choice,
            token_bytes,
            syntax=constraint.syntax if constraint else None,
            stop=() if request.must_call else request.stop,
            min_tokens=0 if constraint else request.min_tokens,
            types_of=constraint.parameter_types if constraint else None,
            hidden_ids=() if constraint else request.stop_token_ids,
            is_inspected=request.is_inspected,
            text_is_json=request.text_is_json and request.draft is None,  # a broken draft may write any text
        )

    @property
    def stop_string(self) -> str | None:
        """The stop string that was found, if one was."""
        return self._scanner.stop_string

    @property
    def is_stopped(self) -> bool:
        """Whether a stop string was found: what follows is not part of the output."""
        return self.stop_string is not None

    def feed(self, token: WrittenToken) -> list[Event]:
        """The events that one more token settles."""
        parts = token.parts
        self._num_left -= 1
        if token.sampled.token_id in self._hidden_ids:
            if self._places is not None:
                self._places.end_with(token)
            return []
        if parts is None:
            parts = (TextPart(self._token_bytes[token.sampled.token_id]),)
        self.num_thought_tokens += token.is_thought
        self._add_logprob(token.sampled)
        events = self._events(parts, token.num_pending_bytes)
        if not token.num_pending_bytes:
            self._pending_logprobs.clear()
        if self._places is not None:
            events += self._places.read(token, parts, events)
        return events

    def finish(self, pending: Iterable[OutputPart] = ()) -> list[Event]:
        """The events of what was held back, `pending` included; call it once, at the end."""
        events: list[Event] = []
        if not self.is_stopped:
            events = [*self._events(pending), *self._left_over()]
            if (text := self._scanner.finish()) or self._logprobs:
                events.append(self._text(text))
            events = joined_deltas(events)
        if self._places is not None:
            events += self._places.finish(events)
        return events

    def end(
        self,
        reason: FinishReason | None,
        stats: GenerationStats,
        *,
        pending: Iterable[OutputPart] = (),
        closed_by: ClosedBy | None = None,
    ) -> list[Event]:
        """The last events, with `Finished`; `reason` is why the tokens ended, None if a stop string did.

        A call that the model completed itself ends in `tool_calls`, also if it did so with its last token.
        """
        events = self.finish(pending)
        if self.is_stopped:
            reason = FinishReason.STOP
        assert reason is not None
        if self.num_calls and closed_by is None:
            reason = FinishReason.TOOL_CALLS
        stats = replace(stats, num_thought_tokens=self.num_thought_tokens)
        return [*events, Finished(self._choice, reason, stats, closed_by, self.stop_string)]

    def _events(self, parts: Iterable[OutputPart], num_pending_bytes: int = 0) -> list[Event]:
        events: list[Event] = []
        for part in parts:
            if type(part) is not self._kind:
                events += self._left_over()
                self._kind = type(part)
            match part:
                case TextPart(text):
                    self._settle_logprobs(num_pending_bytes)
                    events += self._text_events(self._detokenizer.feed(text))
                case ThoughtPart(text):
                    events += self._thought_events(self._detokenizer.feed(text))
                case CallStart(name):
                    events += self._start_events(name)
                case ArgumentsPart(text):
                    events += self._arguments_events(self._detokenizer.feed(text))
                case CallEnd():
                    pass
            if self.is_stopped:
                break
        return joined_deltas(events)

    def _left_over(self) -> list[Event]:
        """What is left of a character that was never completed, where its text ends."""
        last_text = self._detokenizer.finish()
        if self._kind is ThoughtPart:
            return self._thought_events(last_text)
        return self._text_events(last_text) if self._kind is TextPart else []

    def _text_events(self, text: str) -> list[Event]:
        text = self._scanner.feed(text, may_stop=self._num_left < 0)
        return [self._text(text)] if text else []

    def _thought_events(self, text: str) -> list[Event]:
        return [ThoughtDelta(self._choice, text)] if text else []

    def _start_events(self, name: str) -> list[Event]:
        rest = self._scanner.finish()
        events: list[Event] = [self._text(rest)] if rest else []
        if self._syntax is not None and self._syntax.tags is not None:
            self._parameters = ParameterReader(self._syntax, self._types_of(name) if self._types_of else {})
        self.num_calls += 1
        return [*events, CallStarted(self._choice, self.num_calls - 1, name)]

    def _arguments_events(self, text: str) -> list[Event]:
        if self._parameters is not None:
            text = self._parameters.feed(text)
        return [ArgumentsDelta(self._choice, self.num_calls - 1, text)] if text else []

    def _add_logprob(self, sampled: SampledToken) -> None:
        """Keep a token's log probability, if it has one, until the matcher says whether it is text."""
        if sampled.logprob is not None and sampled.token_id not in self._token_bytes.stop_ids:
            # External engines may have logits for more tokens than the vocabulary.
            known = ((i, value) for i, value in sampled.top if self._token_bytes.has(i))
            top = tuple(self._logprob(i, value) for i, value in known)
            self._pending_logprobs.append(self._logprob(sampled.token_id, sampled.logprob, top))

    def _settle_logprobs(self, num_pending_bytes: int) -> None:
        """Take the log probabilities of all tokens but the last ones that lie in text that is held back."""
        num_settled = len(self._pending_logprobs)
        for logprob in reversed(self._pending_logprobs):
            size = len(logprob.token_bytes)
            if num_pending_bytes == 0 or size > num_pending_bytes:
                break
            num_pending_bytes -= size
            num_settled -= 1
        self._logprobs += self._pending_logprobs[:num_settled]
        del self._pending_logprobs[:num_settled]

    def _text(self, text: str) -> TextDelta:
        logprobs, self._logprobs = tuple(self._logprobs), []
        return TextDelta(self._choice, text, logprobs)

    def _logprob(self, token_id: int, value: float, top: tuple[TokenLogprob, ...] = ()) -> TokenLogprob:
        spelled = self._token_bytes[token_id]
        return TokenLogprob(spelled.decode(errors="replace"), spelled, value, top)


def joined_deltas(events: list[Event]) -> list[Event]:
    """The events with neighbours of the same text, thought or call as one."""
    joined: list[Event] = []
    for event in events:
        last = joined[-1] if joined else None
        match last, event:
            case TextDelta(), TextDelta():
                joined[-1] = TextDelta(event.choice, last.text + event.text, last.logprobs + event.logprobs)
            case ThoughtDelta(), ThoughtDelta():
                joined[-1] = ThoughtDelta(event.choice, last.text + event.text)
            case ArgumentsDelta(), ArgumentsDelta() if last.index == event.index:
                joined[-1] = ArgumentsDelta(event.choice, event.index, last.text + event.text)
            case _:
                joined.append(event)
    return joined
