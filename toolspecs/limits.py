"""How large tools and toolsets may be."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Sizes in bytes are of compact JSON without escapes; the defaults admit every real tool we know of."""

    num_tools: int = 2048
    tool_bytes: int = 1024 * 1024
    num_documents: int = 256
    document_bytes: int = 4 * 1024 * 1024
    toolset_bytes: int = 16 * 1024 * 1024
    depth: int = 100  # objects and lists inside one another, in one tool or document
    num_enum_values: int = 10_000
    tool_name_length: int = 128
    description_length: int = 32 * 1024
    num_faults_per_tool: int = 20  # reported; more are not looked for
