"""The request mark: how a request tells the plugin inside an engine which grammar its output must follow.

A mark is a comment line above an EBNF grammar. An engine with the plugin reads the line and links the grammar
that it names. An engine without the plugin ignores the comment and follows the grammar below it, whose only
sentence is no call. So an engine without the plugin never writes an unchecked call.

>>> recipe = GrammarRecipe("d3…", "hermes", (("pay", "5f0c…"), ("search", "91ab…")), ToolChoice())
>>> print(spell_request_mark(RequestMark(recipe), b"the gateway's secret"))
#callgate:1:...:KLUv...
root ::= "CALLGATE-PLUGIN-MISSING"

The line holds an HMAC-SHA-256 and then the recipe as JSON, compressed and in base64. Only somebody who knows
the gateway's secret can write one. The only client text in it are the names of tools.
"""

import base64
import binascii
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec
import zstandard

from compiler.recipe import GrammarRecipe
from toolspecs.resolved_types import resolved

PLUGIN_MISSING = "CALLGATE-PLUGIN-MISSING"
"""What an engine without the plugin writes, and nothing else."""
VERSION = 1
MAX_LINE_BYTES = 4 * 2**20
"""A toolset of 473 tools has a line of 23 KB."""
_MAX_RECIPE_BYTES = 16 * 2**20
_PREFIX = "#callgate:"
_FALLBACK_GRAMMAR = f'root ::= "{PLUGIN_MISSING}"\n'
_PURPOSE = b"callgate mark %d\n" % VERSION
"""Signed with the recipe, so that no other signature of the same secret is one of a mark."""


class InvalidRequestMark(ValueError):
    """A text begins like a mark, but this secret did not sign it; the message says what is wrong."""


@dataclass(frozen=True, slots=True)
class RequestMark:
    """The recipe of an output's grammar. `is_thinking`: the prompt ends inside a thought.

    `written_ids` are output tokens at the end of the prompt: forced tokens, or the valid tokens of an output
    that broke off. The grammar's matcher accepts them before the engine's first token. `left_out_ids` are
    written only where no other token is allowed: the budget has no room for what they begin. `parts` are the
    signed entries of the recipe's keys, as the store has them, for an engine without a store.
    """

    recipe: GrammarRecipe
    is_thinking: bool = False
    written_ids: tuple[int, ...] = ()
    parts: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    left_out_ids: tuple[int, ...] = ()


def spell_request_mark(mark: RequestMark, secret: bytes) -> str:
    """The EBNF text that a request sends as its grammar.

    Raises:
        InvalidRequestMark: the toolset is too large for a mark.
    """
    content = msgspec.json.encode(mark)
    written = base64.urlsafe_b64encode(zstandard.ZstdCompressor().compress(content)).decode()
    line = f"{_PREFIX}{VERSION}:{_signature(written, secret)}:{written}"
    if len(line) > MAX_LINE_BYTES:
        raise InvalidRequestMark(
            f"the mark of {len(mark.recipe.tools)} tools has {len(line)} bytes, but at most {MAX_LINE_BYTES}"
            " are sent with a request; offer fewer tools"
        )
    return f"{line}\n{_FALLBACK_GRAMMAR}"


def has_request_mark(text: str) -> bool:
    """Whether a grammar begins like a mark; only `read_request_mark` checks that it is one."""
    return text.startswith(_PREFIX)


def read_request_mark(text: str, secret: bytes) -> RequestMark | None:
    """The mark of a grammar; None if it has none.

    Raises:
        InvalidRequestMark: it was altered, cut short, or written by another version or with another secret.
    """
    if not has_request_mark(text):
        return None
    line, _, below = text.partition("\n")
    version, signature, written = _parts(line)
    if version != str(VERSION):
        raise InvalidRequestMark(
            f"the mark is of version {version[:20]!r}, and this plugin reads version {VERSION}; the gateway"
            " and the engine need the same version of callgate"
        )
    if below != _FALLBACK_GRAMMAR:
        raise InvalidRequestMark("the grammar below the mark was altered")
    if not hmac.compare_digest(signature.encode(), _signature(written, secret).encode()):
        raise InvalidRequestMark(
            "the signature of the mark is wrong: it was altered, or the gateway and the engine have different"
            " secrets; give both the same CALLGATE_SECRET"
        )
    try:
        content = zstandard.ZstdDecompressor().decompress(
            base64.b64decode(written, altchars=b"-_", validate=True), max_output_size=_MAX_RECIPE_BYTES
        )
        return msgspec.json.decode(content, type=resolved(RequestMark))
    except (binascii.Error, zstandard.ZstdError, ValueError) as error:
        raise InvalidRequestMark(f"the mark was signed, but cannot be read: {error}") from error


def _parts(line: str) -> tuple[str, str, str]:
    parts = line[len(_PREFIX) :].split(":")
    if len(parts) != 3 or len(line) > MAX_LINE_BYTES:
        raise InvalidRequestMark("the mark is damaged, or was cut short")
    version, signature, written = parts
    return version, signature, written


def _signature(written: str, secret: bytes) -> str:
    return hmac.digest(secret, _PURPOSE + written.encode(), "sha256").hex()
