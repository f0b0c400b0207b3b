"""Chat Completions as a client asks for them."""

import json

URL = "/v1/chat/completions"


def body(**fields):
    return {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}], **fields}


async def ask(client, headers=None, **fields):
    response = await client.post(URL, json=body(**fields), headers=headers)
    assert response.status_code == 200, response.text
    return response.json()


async def stream(client, **fields):
    """The chunks of a stream, whose end is checked."""
    response = await client.post(URL, json=body(stream=True, **fields))
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("text/event-stream")
    *events, end = response.text.removesuffix("\n\n").split("\n\n")
    assert end == "data: [DONE]"
    return [json.loads(event.removeprefix("data: ")) for event in events]
