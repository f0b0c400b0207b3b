"""Chat Completions as a client asks for them."""

from sse import events_of

URL = "/v1/chat/completions"
USER = {"role": "user", "content": "Hi"}


def body(**fields):
    return {"model": "tiny", "messages": [USER], **fields}


async def ask(client, headers=None, **fields):
    response = await client.post(URL, json=body(**fields), headers=headers)
    assert response.status_code == 200, response.text
    return response.json()


async def stream(client, **fields):
    """The chunks of a stream, whose end is checked."""
    response = await client.post(URL, json=body(stream=True, **fields))
    assert response.text.endswith("data: [DONE]\n\n"), response.text
    return events_of(response)
