"""The transcript of one choice: tokens in, events out."""

from collections.abc import Callable, Iterable, Sequence

from compiler.syntax import Syntax
from runtime.events import ArgumentsDelta, CallStarted, Event, TextDelta, ThoughtDelta, TokenLogprob
from runtime.sampling import Draw
from runtime.text.calls import CallParser, ParameterTypes
from runtime.text.detokenizer import Detokenizer, Spelling, StopScanner
from runtime.text.parts import ArgumentsPart, CallEnd, CallStart, Part, TextPart, ThoughtPart


class Transcript:
    """Reads text and calls out of what a sequence writes.

    With a `syntax`, its calls are told from text; `types_of` and `is_thinking` are the parser's (see
    `CallParser`). Stop strings are looked for in text only, so that no call is ever cut.
    """

    def __init__(
        self,
        choice: int,
        spelling: Spelling,
        *,
        syntax: Syntax | None,
        stop: Sequence[str],
        types_of: Callable[[str], ParameterTypes] | None = None,
        is_thinking: bool = False,
    ) -> None:
        self.num_calls = 0
        self.num_thought_tokens = 0
        self._choice = choice
        self._spelling = spelling
        self._detokenizer = Detokenizer(spelling)
        self._parser = CallParser(syntax, types_of, is_thinking=is_thinking) if syntax else None
        self._scanner = StopScanner(stop)
        self._logprobs: list[TokenLogprob] = []

    @property
    def is_stopped(self) -> bool:
        """Whether a stop string was found: what follows is not part of the output."""
        return self._scanner.is_stopped

    def feed(self, draw: Draw) -> list[Event]:
        """The events that one more token settles."""
        if draw.logprob is not None and draw.token_id not in self._spelling.stop_ids:
            top = tuple(self._logprob(i, value) for i, value in draw.top)
            self._logprobs.append(self._logprob(draw.token_id, draw.logprob, top))
        events = self._read(self._detokenizer.feed([draw.token_id]))
        self.num_thought_tokens += self._parser is not None and self._parser.is_thinking
        return events

    def finish(self) -> list[Event]:
        """The events of what was held back; call it once, at the end."""
        if self.is_stopped:
            return []
        events = self._read(self._detokenizer.finish())
        if self._parser:
            events += self._events(self._parser.finish())
        if (text := self._scanner.finish()) or self._logprobs:
            events.append(self._text(text))
        return events

    def _read(self, text: str) -> list[Event]:
        return self._events(self._parser.feed(text) if self._parser else [TextPart(text)])

    def _events(self, parts: Iterable[Part]) -> list[Event]:
        events: list[Event] = []
        for part in parts:
            match part:
                case TextPart(text):
                    if text := self._scanner.feed(text):
                        events.append(self._text(text))
                case ThoughtPart(text):
                    self._logprobs.clear()
                    events.append(ThoughtDelta(self._choice, text))
                case CallStart(name):
                    if held := self._scanner.finish():
                        events.append(self._text(held))
                    events.append(CallStarted(self._choice, self.num_calls, name))
                    self.num_calls += 1
                case ArgumentsPart(text):
                    self._logprobs.clear()
                    events.append(ArgumentsDelta(self._choice, self.num_calls - 1, text))
                case CallEnd():
                    self._logprobs.clear()
            if self.is_stopped:
                break
        return events

    def _text(self, text: str) -> TextDelta:
        logprobs, self._logprobs = tuple(self._logprobs), []
        return TextDelta(self._choice, text, logprobs)

    def _logprob(self, token_id: int, value: float, top: tuple[TokenLogprob, ...] = ()) -> TokenLogprob:
        spelled = self._spelling[token_id]
        return TokenLogprob(spelled.decode(errors="replace"), spelled, value, top)
