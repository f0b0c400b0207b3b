"""The settings of an engine."""

from dataclasses import dataclass, field

from runtime.selection import Selection

CPU_STEPPED_PER_SHARE = 4
"""Sequences of a client in one step on a CPU, beside those of other clients."""


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """Sizes and limits of one engine.

    `num_pages` None takes as many pages as fit into `kv_bytes`. `max_batch_tokens` bounds one step: longer
    prompts are prefilled in chunks. A client has at most `max_sequences_per_share`, running or waiting.
    `dtype` and `device` are torch's names. On an accelerator, `dtype` "auto" is the checkpoint's own type; on
    a CPU it is bfloat16 if the checkpoint is and the CPU can multiply it, else float32. Without
    `jump_forward`, forced tokens are sampled, too. `compile_layers` has torch fuse what a layer does between
    its matrix products and attention: fewer kernels, slower start. `selection` is that of requests which say
    none, are not streamed, and have a temperature above 0.

    Raises:
        ValueError: names a setting that is out of range.
    """

    page_size: int = 16
    num_pages: int | None = None
    kv_bytes: int = 512 * 2**20
    max_batch_tokens: int = 512
    max_sequences: int = 64
    max_waiting: int = 256
    max_sequences_per_share: int = 128
    retry_after_s: float = 1.0
    context_length: int | None = None
    default_max_tokens: int = 2048
    dtype: str = "auto"
    device: str = "cpu"
    num_threads: int | None = None
    jump_forward: bool = True
    compile_layers: bool = False
    selection: Selection = field(default_factory=Selection)

    def __post_init__(self) -> None:
        """Check the ranges."""
        for name in (
            "page_size",
            "kv_bytes",
            "max_batch_tokens",
            "max_sequences",
            "max_waiting",
            "max_sequences_per_share",
        ):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
        if self.num_pages is not None and self.num_pages < 2:
            raise ValueError("num_pages must be at least 2: one page stays empty")
        if self.max_batch_tokens < self.max_sequences:
            raise ValueError("max_batch_tokens must be at least max_sequences, or running sequences starve")

    @property
    def max_stepped_per_share(self) -> int:
        """How many sequences of a client one step computes where other clients have some to compute, too.

        On a CPU every sequence makes a step longer by about as much. On an accelerator it hardly does.
        """
        return min(CPU_STEPPED_PER_SHARE, self.max_sequences) if self.device == "cpu" else self.max_sequences
