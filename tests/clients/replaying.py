"""A runtime that plays the tiny model's part without a model, and the shapes that answers must have."""

from collections.abc import AsyncIterator
from dataclasses import replace

from fake_runtime import FakeRuntime, call, text
from official_types import WHOLE, judge, judge_event
from sse import events_of

from runtime.events import Event
from runtime.request import GenerationRequest

REFUND = '{"payment": "pay_4821", "reason": "duplicate"}'
REVIEW = '{"reason": "duplicate", "is_urgent": false}'

LAST_EVENTS = {"/v1/responses": "response.completed", "/v1/messages": "message_stop"}


class Clerk(FakeRuntime):
    """Calls the first tool that it is shown after a message of the user, and writes text otherwise."""

    def __init__(self) -> None:
        super().__init__()
        self.card = replace(self.card, model_id="demo", context_length=8192)

    async def generate(self, request: GenerationRequest) -> AsyncIterator[Event]:
        if request.tools and request.messages[-1].role == "user":
            name = request.tools[0].name
            self.script = call(name, REFUND if name == "refund_payment" else REVIEW)
        elif request.constraint and not request.tools:
            self.script = text(REVIEW)
        else:
            self.script = text("Done: ", "refund is re_77.")
        async for event in super().generate(request):
            yield event


def check_shape(path, answer, *, is_streamed):
    """Check an answer, whole or streamed, against the types that the official clients have of it."""
    if not is_streamed:
        judge(WHOLE[path], answer.json())
        return
    events = events_of(answer)
    for event in events:
        judge_event(path, event)
    if path in LAST_EVENTS:
        assert events[-1]["type"] == LAST_EVENTS[path]
    else:
        assert answer.text.endswith("data: [DONE]\n\n")
