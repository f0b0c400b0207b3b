"""The settings of an engine."""

from dataclasses import dataclass, field

from runtime.selection import Selection

CPU_KV_BYTES = 512 * 2**20
"""The size of the KV cache on a CPU, unless a setting says otherwise."""
CPU_STEPPED_PER_CLIENT = 4
"""The most sequences of a client in one step on a CPU, while other clients have some too."""


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """Sizes and limits of one engine.

    Raises:
        ValueError: names a setting that is out of range.
    """

    page_size: int = 16
    """Tokens of a page of the KV cache."""
    num_pages: int | None = None
    """None takes as many pages as fit into `kv_bytes`."""
    kv_bytes: int | None = None
    """Memory for the KV cache. None takes what a GPU has left after the largest batch, or `CPU_KV_BYTES`."""
    max_batch_tokens: int = 512
    """Tokens that one step computes; longer prompts are prefilled in chunks."""
    max_batch: int = 64
    """Sequences that are decoded together."""
    max_waiting: int = 256
    """Choices that wait in the queue."""
    max_sequences_per_client: int = 128
    """Sequences of one client, running or waiting."""
    shares_prefixes: bool = False
    """Whether clients find each other's prefixes in the KV cache, and so can tell what others asked."""
    context_length: int | None = None
    default_max_tokens: int = 2048
    dtype: str = "auto"
    """Torch's name of a type. On an accelerator, "auto" is the checkpoint's own type; on a CPU it is bfloat16
    if the checkpoint is and the CPU can multiply it, else float32."""
    device: str = "cpu"
    """Torch's name of a device."""
    num_threads: int | None = None
    jump_forward: bool = True
    """Without it, forced tokens are sampled like all others."""
    compile_layers: bool = False
    """Torch fuses what a layer does between matrix products and attention: fewer kernels, slower start."""
    cuda_graphs: bool = True
    """A GPU replays small batches as CUDA graphs, instead of launching each kernel."""
    selection: Selection = field(default_factory=Selection)
    """Applies to requests that set none, and where `GenerationRequest.selection_or` says."""

    def __post_init__(self) -> None:
        for name in (
            "page_size",
            "kv_bytes",
            "max_batch_tokens",
            "max_batch",
            "max_waiting",
            "max_sequences_per_client",
        ):
            if (value := getattr(self, name)) is not None and value < 1:
                raise ValueError(f"{name} must be at least 1")
        if self.num_pages is not None and self.num_pages < 2:
            raise ValueError("num_pages must be at least 2: one page stays empty")
        if self.max_batch_tokens < self.max_batch:
            raise ValueError("max_batch_tokens must be at least max_batch, or running sequences starve")

    @property
    def max_stepped_per_client(self) -> int:
        """How many sequences of a client one step computes while other clients have some too.

        On a CPU, every sequence makes a step longer by about as much. On an accelerator, it hardly does.
        """
        return min(CPU_STEPPED_PER_CLIENT, self.max_batch) if self.device == "cpu" else self.max_batch
