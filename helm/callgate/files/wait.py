"""Waits until the gateways of this release answer: in an upgrade, former ones still serve while those load.

A former gateway has another version, or does not know the key. Each request may reach another gateway.
"""

import json
import os
import time
import urllib.request

from gateway.version import VERSION

NUM_IN_ROW = 20


def reason_to_wait() -> str:
    """Why the gateway that answers now is none of this release; empty if it is one."""
    headers = {"Authorization": f"Bearer {os.environ['CALLGATE_API_KEY']}"}
    request = urllib.request.Request(f"{os.environ['CALLGATE_URL']}/version", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            version = json.load(answer)["version"]
    except (OSError, ValueError) as error:
        return str(error)
    return "" if version == VERSION else f"it has version {version}, not {VERSION}"


def main() -> None:
    """Wait, and print each new reason."""
    num_good, reason = 0, ""
    while num_good < NUM_IN_ROW:
        former, reason = reason, reason_to_wait()
        num_good = 0 if reason else num_good + 1
        if reason and reason != former:
            print(f"waiting for the gateways of this release: {reason}", flush=True)
        time.sleep(2 if reason else 0.1)


main()
