"""The kinds of external engines: one row each. The gateway's setting `engine` names them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from compiler.grammar.gbnf import to_gbnf
from compiler.grammar.plain_ebnf import to_plain_ebnf
from compiler.prepared_vocabulary import PreparedVocabulary
from runtime.engines.client import EngineAddress, EngineClient
from runtime.engines.llama_client import LlamaClient
from runtime.engines.sent_grammars import WriteGrammar
from runtime.engines.sglang_client import SglangClient
from runtime.engines.vllm_client import VllmClient


@dataclass(frozen=True, slots=True)
class EngineKind:
    """How servers of one kind are asked.

    `write_grammar` writes grammars for engines without the plugin; those with the plugin get marks instead.
    `takes_images`: whether images can be sent to them.
    """

    connect: Callable[[EngineAddress, PreparedVocabulary], EngineClient]
    write_grammar: WriteGrammar | None = None
    takes_images: bool = True

    @property
    def has_plugin(self) -> bool:
        """Whether the engine runs our plugin."""
        return self.write_grammar is None


def _connect_stock(address: EngineAddress, prepared: PreparedVocabulary) -> EngineClient:
    return VllmClient(address, vocabulary=prepared.vocabulary)


ENGINE_KINDS: Mapping[str, EngineKind] = {
    "vllm": EngineKind(lambda address, _: VllmClient(address)),
    "sglang": EngineKind(lambda address, _: SglangClient(address)),
    "vllm_stock": EngineKind(_connect_stock, to_plain_ebnf),
    "llama_server": EngineKind(LlamaClient, to_gbnf, takes_images=False),
}
