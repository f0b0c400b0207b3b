"""What `helm test` runs: the release's model is asked for one call, as soon as it is ready, and the call is judged."""

import json
import os
import sys
import time
import urllib.error
import urllib.request

STATES = ["good", "bad"]
REPORT = {"type": "object", "properties": {"state": {"enum": STATES}}, "required": ["state"]}


def ask(path, body=None):
    """The answer of a gateway; waits while its model is not ready."""
    headers = {
        "Authorization": f"Bearer {os.environ['CALLGATE_API_KEY']}",
        "Content-Type": "application/json",
    }
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(os.environ["CALLGATE_URL"] + path, data, headers)
    while True:
        try:
            with urllib.request.urlopen(request, timeout=300) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code != 503:
                sys.exit(f"{path}: {error.code} {error.read().decode()}")
        time.sleep(5)


body = {
    "model": ask("/v1/models")["data"][0]["id"],
    "messages": [{"role": "user", "content": "Report the state."}],
    "tools": [{"type": "function", "function": {"name": "report", "parameters": REPORT}}],
    "tool_choice": "required",
    "max_tokens": 100,
}
choice = ask("/v1/chat/completions", body)["choices"][0]
calls = [call["function"] for call in choice["message"].get("tool_calls") or ()]
if not calls or any(json.loads(call["arguments"])["state"] not in STATES for call in calls):
    sys.exit(f"not a valid call: {choice}")
print(f"{body['model']} called {calls}")
