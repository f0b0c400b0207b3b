"""The APIs of models as their clients ask them: the least request of each, and its answers, whole or streamed."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from httpx import Response
from sse import ended_events_of, named_events_of, numbered_events_of

USER = {"role": "user", "content": "Hi"}
TOOL_CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
"""A call in the history of a chat."""


@dataclass(frozen=True)
class API:
    """An API, and the fields that each of its requests has."""

    url: str
    least: dict[str, Any]
    read_events: Callable[[Response], list[dict[str, Any]]]

    @property
    def __name__(self):
        """What pytest calls the cases of a test over several APIs."""
        return self.url

    def body(self, **fields):
        return {"model": "tiny", **self.least, **fields}

    async def ask(self, client, headers=None, **fields):
        """The answer, which is whole."""
        response = await client.post(self.url, json=self.body(**fields), headers=headers)
        assert response.status_code == 200, response.text
        return response.json()

    async def stream(self, client, **fields):
        """The events of a stream, whose form is checked."""
        return self.read_events(await client.post(self.url, json=self.body(stream=True, **fields)))

    async def refusal(self, client, **fields):
        """The error of a request that is a mistake of the client."""
        response = await client.post(self.url, json=self.body(**fields))
        assert response.status_code == 400, response.text
        return response.json()["error"]


CHAT = API("/v1/chat/completions", {"messages": [USER]}, ended_events_of)
COMPLETIONS = API("/v1/completions", {"prompt": "Once"}, ended_events_of)
MESSAGES = API("/v1/messages", {"messages": [USER], "max_tokens": 50}, named_events_of)
RESPONSES = API("/v1/responses", {"input": "Hi"}, numbered_events_of)
