"""Tools, look-ups and a counting pool for tests of the grammar cache."""

from compiler.isolation.pools import ThreadPool
from compiler.prepared_vocabulary import prepare
from toolspecs.tool import ChoiceMode, Tool, ToolChoice

SECRET = b"secret"
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


async def find(cache, tools, vocabulary):
    return await cache.find_toolset(tools, prepared=prepare(vocabulary), syntax="json", tool_choice=REQUIRED)
