"""Tools, look-ups, a counting pool and a failing store for tests of the grammar cache."""

from vocabularies import BYTES

from compiler.isolation.pools import ThreadPool
from compiler.prepared_vocabulary import prepare
from toolspecs.tool import ChoiceMode, Tool, ToolChoice

SECRET = b"secret"
PREPARED = prepare(BYTES)
REQUIRED = ToolChoice(ChoiceMode.REQUIRED)


def tool(name: str, **properties) -> Tool:
    return Tool(name, "", {"type": "object", "properties": properties or {"a": {"type": "integer"}}})


class Counting(ThreadPool):
    """Counts the jobs it does."""

    def __init__(self) -> None:
        super().__init__()
        self.jobs = []

    async def run(self, job, prepared, *, is_long=True, client_id=""):
        self.jobs.append(job)
        return await super().run(job, prepared, is_long=is_long, client_id=client_id)


async def find(cache, tools, vocabulary=BYTES):
    return await cache.find_toolset(tools, prepared=prepare(vocabulary), syntax="json", tool_choice=REQUIRED)


def failing(monkeypatch, store, error, *methods):
    """Let methods of a store raise an error."""

    async def fail(*_, **__):
        raise error

    for method in methods:
        monkeypatch.setattr(store, method, fail)
