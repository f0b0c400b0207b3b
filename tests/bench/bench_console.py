"""How long the console's lists take where there is very much to list.

5,000 tools: 2,000 in one toolset (it may have 2,048), the others in toolsets of their own, in SQLite. Each
request is timed over HTTP on loopback. The runtime plays a script: lists do not touch it.

    PYTHONPATH=.:tests:tests/gateway python tests/bench/bench_console.py
"""

import statistics
import tempfile
import time
from typing import Any

from fake_runtime import FakeRuntime
from serving import served

from gateway.app import create_app
from gateway.settings import Settings

NUM_IN_ONE, NUM_TOOLSETS = 2_000, 3_000
NUM_REPEATS = 15
REQUESTS = {
    "2,000 tools of one toolset, the first 50": "/v1/toolsets/many/tools?limit=50",
    "2,000 tools of one toolset, searched for one": "/v1/toolsets/many/tools?limit=50&search=tool.1999",
    "2,000 tools of one toolset, one tool": "/v1/toolsets/many/tools/tool.1500?shape=mcp",
    "2,000 tools of one toolset, the report of one": "/v1/toolsets/many/report?tool=tool.1500",
    "3,001 toolsets, the first 50": "/v1/toolsets?limit=50",
    "3,001 toolsets, searched for one": "/v1/toolsets?limit=50&search=set-2999",
}


def tool(number: int) -> dict[str, Any]:
    properties = {"id": {"type": "integer"}, "note": {"type": "string", "maxLength": 100 + number % 7}}
    schema = {"type": "object", "properties": properties, "required": ["id"], "additionalProperties": False}
    return {"name": f"tool.{number}", "description": f"Does thing {number}. " * 8, "inputSchema": schema}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(
            data_dir=folder,
            compile_workers=0,
            max_body_bytes=64_000_000,
            max_toolset_bytes=64_000_000,
            quota_toolsets=2 * NUM_TOOLSETS,
        )
        with served(create_app(settings, runtime=FakeRuntime())) as client:
            client.timeout = 600
            body = {"tools": [tool(number) for number in range(NUM_IN_ONE)]}
            registered = client.put("/v1/toolsets/many", json=body)
            print(
                f"registering {NUM_IN_ONE} tools: {registered.status_code}, {registered.elapsed.total_seconds():.1f} s"
            )
            registered.raise_for_status()
            for number in range(NUM_TOOLSETS):
                client.put(f"/v1/toolsets/set-{number}", json={"tools": [tool(number)]}).raise_for_status()
            for name, path in REQUESTS.items():
                times = []
                for _ in range(NUM_REPEATS):
                    start = time.perf_counter()
                    answer = client.get(path).raise_for_status()
                    times.append((time.perf_counter() - start) * 1e3)
                print(
                    f"{name}: median {statistics.median(times):.0f} ms, first {times[0]:.0f} ms, "
                    f"slowest {max(times):.0f} ms, {len(answer.content) / 1e3:.0f} kB"
                )


if __name__ == "__main__":
    main()
