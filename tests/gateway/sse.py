"""Server-sent events of a streamed answer, read."""

import json


def events_of(response):
    """The events of any API as JSON, without the `[DONE]` that ends some streams."""
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("text/event-stream")
    data = [line.removeprefix("data: ") for line in response.text.split("\n") if line.startswith("data: ")]
    return [json.loads(event) for event in data if event != "[DONE]"]


def ended_events_of(response):
    """Events behind which `[DONE]` says that there are no more, as in Chat Completions."""
    assert response.text.endswith("data: [DONE]\n\n"), response.text
    return events_of(response)


def named_events_of(response):
    """Events each of which has its type as its name, as in Messages."""
    events = events_of(response)
    names = [line.removeprefix("event: ") for line in response.text.split("\n") if line.startswith("event: ")]
    assert names == [event["type"] for event in events]
    return events


def numbered_events_of(response):
    """Named events that are counted, as in Responses."""
    events = named_events_of(response)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    return events
