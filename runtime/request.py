"""A generation request: the conversation, the tools shown, the grammar, how to sample; and its limits."""

import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from compiler.constraint import Constraint
from compiler.recipe import GrammarRecipe
from runtime.draft import Draft
from runtime.errors import RequestRefused, UnknownModel
from runtime.inspection import MAX_INSPECTED
from runtime.selection import Selection, SelectionStrategy
from toolspecs.tool import Tool, ToolCall

MIN_TEMPERATURE = 1e-5


@dataclass(frozen=True, slots=True)
class Image:
    """An image in the text of a message: a data URL, how many characters come before it, and its pixels."""

    url: str = field(repr=False)
    at: int
    num_pixels: int = 0


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the role `system`, `user`, `assistant` or `tool`.

    `thought` is what the assistant thought before its answer. `call_id` and `name` say which call a message
    of the role `tool` answers. `images` stand in `content`, in this order.
    """

    role: str
    content: str = ""
    calls: tuple[ToolCall, ...] = ()
    call_id: str | None = None
    name: str | None = None
    thought: str | None = None
    images: tuple[Image, ...] = ()

    @property
    def num_characters(self) -> int:
        """The length of what a prompt shows of the message, as a measure of its tokens."""
        calls = sum(len(call.name) + len(call.arguments) for call in self.calls)
        return len(self.content) + len(self.thought or "") + calls


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to sample; temperature 0 is greedy. `seed` None stands for a random seed.

    `repetition_penalty` weakens tokens that the prompt or the output contains; 1 changes nothing. `top_k` and
    `top_p` keep tokens that are as probable as the last one, too.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int | None = None
    min_p: float = 0.0
    seed: int | None = None
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    repetition_penalty: float = 1.0

    @property
    def is_greedy(self) -> bool:
        """Whether to take the most probable token; dividing by a temperature near zero would overflow."""
        return self.temperature < MIN_TEMPERATURE

    @property
    def truncates(self) -> bool:
        """Whether improbable tokens are left out."""
        return self.top_k is not None or self.top_p < 1.0 or self.min_p > 0.0


def read_top_k(top_k: int | None) -> int | None:
    """A top_k as `Sampling` has it: in files and in requests, 0 and -1 stand for all tokens.

    So does a number that is larger than any vocabulary, which engines could not represent.
    """
    return top_k if top_k and 0 < top_k < 2**31 else None


OPENAI_SAMPLING = Sampling()
"""The defaults of OpenAI's API: temperature 1, all tokens."""


@dataclass(slots=True)
class RequestTimes:
    """When a request reached each step, in nanoseconds since the epoch; None if it has not yet.

    A request waits in a queue, its prompt is computed (prefill), then tokens are sampled (decode). The engine
    writes these times, once for all choices. An external engine does not report when a request left its
    queue, so `prefill_ns` is then the time when the gateway sent the request.
    """

    queued_ns: int | None = None
    prefill_ns: int | None = None
    decode_ns: int | None = None

    def note_queued(self) -> None:
        """Note that the request waits in the queue."""
        self.queued_ns = self.queued_ns or time.time_ns()

    def note_begun(self) -> None:
        """Note that the first choice is being computed; later calls change nothing."""
        self.prefill_ns = self.prefill_ns or time.time_ns()

    def note_token(self) -> None:
        """Note that a token was sampled; later calls change nothing."""
        self.decode_ns = self.decode_ns or time.time_ns()


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One generation of `num_choices` independent sequences over the same prompt."""

    request_id: str
    model: str
    messages: tuple[Message, ...]
    prompt: str | tuple[int, ...] | None = None
    """Replaces the messages: token ids, or text in which the text of a marker becomes that marker token."""
    tools: tuple[Tool, ...] = ()
    """The tools that the prompt shows."""
    constraint: Constraint | None = None
    recipe: GrammarRecipe | None = None
    """What the constraint was linked from, for an engine that links it itself."""
    sampling: Sampling = OPENAI_SAMPLING
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    """Tokens that end an output. They apply only without a constraint, whose outputs must not be cut off."""
    min_tokens: int = 0
    """The shortest output. It applies only without a constraint, whose outputs must not be padded."""
    max_tokens: int | None = None
    num_choices: int = 1
    num_logprobs: int | None = None
    """The number of alternatives to report beside each token's log probability; None reports neither."""
    template_options: Mapping[str, Any] = field(default_factory=dict)
    timeout_s: float | None = None
    """After this time the request ends with DeadlineExceeded."""
    client_id: str = ""
    """Who sends it. All requests of a client get one share of the engine together. Only they share prefixes
    in the KV cache, unless the settings say otherwise."""
    trace_headers: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Sent to external engines, so that their spans belong to the request's trace."""
    times: RequestTimes = field(default_factory=RequestTimes, compare=False)
    refused_choices: set[tuple[str, int]] = field(default_factory=set, compare=False)
    """What full engines refused: a request's id, and one of its choices. Drafts share this and `times`."""
    selection: Selection | None = None
    """How the answer is selected; None stands for the runtime's default."""
    is_streamed: bool = False
    """If so, the default selection does not apply: a selected answer is sent only when it is complete."""
    is_inspected: bool = False
    """Asks for an `InspectedToken` for each token (`runtime.inspection`)."""
    text_is_json: bool = False
    """Whether the grammar makes JSON of all text that is not a thought, so that its tokens have paths."""
    must_call: bool = False
    """Whether every output has a call. Then stop strings do not end the prose that may come before it."""
    draft: Draft | None = field(default=None, compare=False)
    """With a draft, nothing is masked: the constraint only tells text from calls, and the draft records
    whether the output is valid. Such a request has one choice."""
    num_siblings: int = 0
    """The number of other requests that write further choices of the same answer."""

    @property
    def images(self) -> tuple[Image, ...]:
        """The images of all messages."""
        return tuple(image for message in self.messages for image in message.images)

    @property
    def num_image_characters(self) -> int:
        """The characters of all data URLs, once per choice: each choice is a request to an engine."""
        return self.num_choices * sum(len(image.url) for image in self.images)

    @property
    def strategy(self) -> SelectionStrategy | None:
        """How the request wants its answer selected; None if it does not say or nothing can be selected."""
        if self.selection is None or self.selection.size == 1 or self.constraint is None:
            return None
        return self.selection.strategy

    @property
    def num_answers_per_choice(self) -> int:
        """How many answers the request itself wants drawn for each choice, to select one of them."""
        return self.selection.size if self.selection and self.strategy else 1

    def selection_or(self, default: Selection, max_choices: int) -> Selection:
        """How the answers are selected: as the request says, or else by `default` where it applies.

        The default does not apply to streamed answers, to requests with stop strings, and to requests for
        details of tokens, as answers that are given up have such details too. It does not apply if the
        choices need more sequences than a client may have. At temperature 0, default particles are an
        `accept` of the same size, as their own search often finds a short output.
        """
        if self.selection is not None:
            return self.selection if self.constraint is not None else Selection()
        if default.strategy == "particles" and self.sampling.is_greedy:
            default = Selection("accept", default.size)
        is_too_many = default.num_together * self.num_choices > max_choices
        is_out_of_place = self.is_streamed or bool(self.stop) or is_too_many
        is_out_of_place |= self.is_inspected or self.num_logprobs is not None
        return default if self.constraint is not None and not is_out_of_place else Selection()


MAX_IMAGES = 64
MAX_PIXELS = 100_000_000
"""The most pixels of all images of a request together. An engine decodes each to about four bytes."""
MAX_IMAGE_CHARACTERS = 64 << 20
"""The most characters of data URLs in one client's running requests to engines."""


def check_images(request: GenerationRequest) -> None:
    """Refuse a request whose images would cost an engine too much.

    Raises:
        RequestRefused: says what is too much.
    """
    images = request.images
    if len(images) > MAX_IMAGES:
        reason = (
            f"the messages have {len(images)} images, but at most {MAX_IMAGES} are allowed; leave some out"
        )
        raise RequestRefused(reason, "messages")
    if (number := sum(image.num_pixels for image in images)) > MAX_PIXELS:
        reason = (
            f"the images have {number} pixels together, but may have at most {MAX_PIXELS}; scale them down"
        )
        raise RequestRefused(reason, "messages")
    if (number := request.num_image_characters) > MAX_IMAGE_CHARACTERS:
        reason = (
            f"the images have {number} characters for all answers together, but may have at most"
            f" {MAX_IMAGE_CHARACTERS}; ask for fewer answers, or send smaller images"
        )
        raise RequestRefused(reason, "messages")


MAX_LOGPROBS = 500_000
"""Log probabilities of one request's answers, including alternatives. Each takes 65 bytes of JSON."""


def check_details(request: GenerationRequest, max_tokens: int) -> None:
    """Refuse a request that asks for too many details about answers of up to `max_tokens` each.

    Raises:
        RequestRefused: says how many that would be.
    """
    num_answers = request.num_answers_per_choice * (request.num_choices + request.num_siblings)
    answers = f"{num_answers} answers of {max_tokens} tokens"
    if request.is_inspected and (number := num_answers * max_tokens) > MAX_INSPECTED:
        reason = f"{answers} may have {number} tokens, but at most {MAX_INSPECTED} can be inspected"
        raise RequestRefused(f"{reason}; lower max_tokens, or ask for fewer answers", "callgate.inspect")
    number = num_answers * max_tokens * (1 + (request.num_logprobs or 0))
    if request.num_logprobs is not None and number > MAX_LOGPROBS:
        raise RequestRefused(
            f"{answers} with {request.num_logprobs} alternatives have {number} log probabilities, but at most"
            f" {MAX_LOGPROBS} are given; lower max_tokens or the alternatives, or ask for fewer answers",
            "top_logprobs",
        )


def check_model(request: GenerationRequest, model_id: str) -> None:
    """Refuse a request for another model than the only one that is served.

    Raises:
        UnknownModel: names the one that is served.
    """
    if request.model != model_id:
        raise UnknownModel(request.model, (model_id,))


def check_limits(request: GenerationRequest, vocabulary_width: int, max_choices: int) -> None:
    """Refuse a request with a value that is out of its range.

    Token ids are below `vocabulary_width`; `max_choices` sequences can wait in the queue.

    Raises:
        RequestRefused: names the parameter and its range.
    """
    for parameter, is_within, expected in _limits(request, vocabulary_width, max_choices):
        if not is_within:
            raise RequestRefused(f"{parameter} must be {expected}", parameter)


def _limits(request: GenerationRequest, width: int, max_choices: int) -> Iterator[tuple[str, bool, str]]:
    is_within = 1 <= request.num_choices <= max_choices
    yield "n", is_within, f"from 1 to {max_choices}, as many as may wait"
    yield "max_tokens", request.max_tokens is None or request.max_tokens >= 1, "at least 1"
    yield "min_tokens", 0 <= request.min_tokens <= (request.max_tokens or math.inf), "from 0 to max_tokens"
    yield "stop_token_ids", all(0 <= i < width for i in request.stop_token_ids), f"token ids below {width}"
    if isinstance(request.prompt, tuple):
        yield "prompt", all(0 <= i < width for i in request.prompt), f"of token ids below {width}"
    yield "top_logprobs", request.num_logprobs is None or request.num_logprobs >= 0, "at least 0"
    reason = f"left out: an answer is selected as a whole, as callgate.{request.strategy} asks"
    yield "stop", not (request.stop and request.strategy in {"accept", "particles"}), reason
    if request.selection is not None and request.strategy == "particles":
        most = max_choices // request.num_choices
        yield "callgate.particles", request.selection.size <= most, f"at most {most}, as many as may wait"
    yield "timeout", request.timeout_s is None or request.timeout_s > 0, "above 0"
    yield from _sampling_limits(request.sampling, width)


def _sampling_limits(sampling: Sampling, width: int) -> Iterator[tuple[str, bool, str]]:
    yield "temperature", 0 <= sampling.temperature < math.inf, "0 or above"
    yield "top_p", 0 <= sampling.top_p <= 1, "from 0 to 1"
    yield "top_k", sampling.top_k is None or sampling.top_k >= 1, "at least 1"
    yield "min_p", 0 <= sampling.min_p <= 1, "from 0 to 1"
    yield "presence_penalty", math.isfinite(sampling.presence_penalty), "a number"
    yield "frequency_penalty", math.isfinite(sampling.frequency_penalty), "a number"
    yield "repetition_penalty", 0 < sampling.repetition_penalty < math.inf, "above 0"
    yield "logit_bias", all(map(math.isfinite, sampling.logit_bias.values())), "numbers"
    yield "logit_bias", all(0 <= i < width for i in sampling.logit_bias), f"of token ids below {width}"
