"""The clients: what is installed, which script runs, and what is worth saying about it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

STEPS = ("calls", "second turn", "streamed", "structured")
"""What every script does, unless its client has no way to."""
SNIPPET = "snippet"
"""The step after these: what `docs/frameworks.md` shows of the client runs as it stands there."""


@dataclass(frozen=True, slots=True)
class Client:
    """A row. `packages` are pinned, the client itself first; `script` is a file in `scripts/`.

    `lacks` are the steps that the client has no way to do, and `note` says why. `snippet` is the heading of
    its snippet in `docs/frameworks.md`, if it has one.
    """

    name: str
    language: Literal["Python", "JavaScript"]
    packages: tuple[str, ...]
    script: str
    note: str = ""
    lacks: tuple[str, ...] = ()
    snippet: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def steps(self) -> tuple[str, ...]:
        """What is run of it, in order."""
        return (*(step for step in STEPS if step not in self.lacks), *([SNIPPET] if self.snippet else ()))

    @property
    def file_name(self) -> str:
        """The stem of its recording, and the folder of its environment."""
        return self.script.replace(".", "_").removeprefix("with_")

    @property
    def version(self) -> str:
        """The version of the client itself."""
        return self.packages[0].rpartition("==" if self.language == "Python" else "@")[2]


def _python(
    name: str,
    script: str,
    *packages: str,
    note: str = "",
    lacks: tuple[str, ...] = (),
    snippet: str = "",
    **environment: str,
) -> Client:
    return Client(name, "Python", packages, f"with_{script}.py", note, lacks, snippet, environment)


def _javascript(name: str, script: str, *packages: str, snippet: str = "") -> Client:
    return Client(name, "JavaScript", packages, f"with_{script}.mjs", snippet=snippet)


_AI_SDK = ("ai@7.0.173", "zod@4.6.7")

CLIENTS = (
    _python("openai", "openai", "openai==3.57.0"),
    _python("openai, Responses", "openai_responses", "openai==3.57.0"),
    _python("anthropic", "anthropic", "anthropic==2.14.0", snippet="Anthropic's client"),
    _python(
        "OpenAI Agents SDK",
        "openai_agents",
        "openai-agents==0.24.0",
        "openai==3.57.0",
        snippet="OpenAI Agents SDK",
    ),
    _python(
        "Pydantic AI",
        "pydantic_ai",
        "pydantic-ai-slim[openai]==2.68.0",
        "openai==3.57.0",
        snippet="Pydantic AI",
    ),
    _python(
        "LangChain",
        "langchain",
        "langchain==1.5.2",
        "langchain-openai==1.7.4",
        snippet="LangChain and LangGraph",
    ),
    _python("LangGraph", "langgraph", "langgraph==1.2.24", "langchain==1.5.2", "langchain-openai==1.7.4"),
    _python(
        "LlamaIndex",
        "llama_index",
        "llama-index-core==0.14.25",
        "llama-index-llms-openai-like==0.8.1",
        snippet="LlamaIndex",
    ),
    _python("CrewAI", "crewai", "crewai==1.15.30", snippet="CrewAI", CREWAI_DISABLE_TELEMETRY="true"),
    _python(
        "smolagents",
        "smolagents",
        "smolagents[openai]==1.26.0",
        snippet="smolagents",
        note="shows earlier calls to the model as text. In the second turn the tiny model then calls"
        " `final_answer` at once, which is a valid call too.",
    ),
    _python("Haystack", "haystack", "haystack-ai==3.4.1", HAYSTACK_TELEMETRY_ENABLED="false"),
    _python("Microsoft Agent Framework", "agent_framework", "agent-framework-openai==1.17.0"),
    _python(
        "AutoGen", "autogen", "autogen-agentchat==0.7.5", "autogen-ext[openai]==0.7.5", snippet="AutoGen"
    ),
    _python("Claude Agent SDK", "claude_agent_sdk", "claude-agent-sdk==0.2.189"),
    _python(
        "Instructor",
        "instructor",
        "instructor==1.17.0",
        "litellm[mcp]==1.110.2",
        lacks=("second turn",),
        snippet="LiteLLM and Instructor",
        note="makes one object of one answer, and runs no tools.",
    ),
    _python("LiteLLM", "litellm", "litellm[mcp]==1.110.2", LITELLM_LOCAL_MODEL_COST_MAP="true"),
    _python("DSPy", "dspy", "dspy==3.4.1", "litellm[mcp]==1.110.2", LITELLM_LOCAL_MODEL_COST_MAP="true"),
    _python(
        "Google ADK",
        "google_adk",
        "google-adk==2.13.0",
        "litellm[mcp]==1.110.2",
        LITELLM_LOCAL_MODEL_COST_MAP="true",
    ),
    _python("Strands Agents", "strands", "strands-agents[openai]==1.62.0"),
    _javascript("openai", "openai", "openai@7.59.0", "zod@4.6.7"),
    _javascript("@anthropic-ai/sdk", "anthropic", "@anthropic-ai/sdk@1.14.0", "zod@4.6.7"),
    _javascript("OpenAI Agents SDK", "openai_agents", "@openai/agents@0.20.0", "zod@4.6.7"),
    _javascript(
        "AI SDK, default provider",
        "ai_sdk",
        "@ai-sdk/openai@4.0.118",
        *_AI_SDK,
        snippet="AI SDK, and the Agents SDK for JavaScript",
    ),
    _javascript("AI SDK, chat", "ai_sdk_chat", "@ai-sdk/openai@4.0.118", *_AI_SDK),
    _javascript(
        "AI SDK, openai-compatible", "ai_sdk_compatible", "@ai-sdk/openai-compatible@3.0.92", *_AI_SDK
    ),
    _javascript("AI SDK, anthropic", "ai_sdk_anthropic", "@ai-sdk/anthropic@4.0.105", *_AI_SDK),
)
