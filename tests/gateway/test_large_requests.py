"""A large request holds up nobody else."""

import asyncio

import pytest

from gateway.http import request_bodies
from gateway.routes import generation_routes
from gateway.wire.openai import read_request

URL = "/v1/chat/completions"


def is_in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


@pytest.mark.parametrize("is_large", [False, True])
async def test_a_large_request_is_read_beside_the_event_loop(client, monkeypatch, is_large):
    in_loop = []

    def observed(body, headers, **options):
        in_loop.append(is_in_loop())
        return read_request(body, headers, **options)

    monkeypatch.setattr(generation_routes, "read_chat_request", observed)
    monkeypatch.setattr(request_bodies, "SMALL", 500)
    asked = {"model": "tiny", "messages": [{"role": "user", "content": "x" * 1000 * is_large}]}
    assert (await client.post(URL, json=asked)).status_code == 200
    refused = await client.post(URL, json=asked | {"modle": 1})
    assert refused.json()["error"]["param"] == "modle"
    assert in_loop == [not is_large] * 2
