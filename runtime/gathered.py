"""Attention that gathers pages, on any device; pages that lie side by side are read in place.

Sequences that begin with the same pages attend to them together, once, and their parts are joined by their
log-sum-exp.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import takewhile

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from runtime.attention import Scoring
from runtime.pages import NULL_PAGE
from runtime.scheduler import Chunk
from runtime.transfer import upload

# The public function of torch does not return the log-sum-exp.
_flash_attention_on_cpu = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu  # noqa: SLF001


@dataclass(slots=True)
class Span:
    """A run of keys, the first at position `start`: `pages` by sequence, or one list if all share them."""

    pages: list[list[int]]
    start: int
    page_size: int
    _index: Tensor | None = None
    _biases: dict[int | None, Tensor] = field(default_factory=dict)

    def read(self, states: Tensor) -> Tensor:
        """[rows, num_kv_heads, keys, head_dim] out of a layer's keys or values."""
        first = self.pages[0]
        if len(self.pages) == 1 and first[-1] - first[0] == len(first) - 1 and first == sorted(first):
            found = states[None, first[0] : first[-1] + 1]
        else:
            if self._index is None:
                self._index = pad_tables(self.pages, states.device)
            found = states[self._index]
        return found.flatten(1, 2).transpose(1, 2)

    def bias(self, positions: Tensor, window: int | None, repeats: int, dtype: torch.dtype) -> Tensor:
        """[sequences, 1, repeats * queries, keys]: 0 where a query at `positions` sees a key, else -inf."""
        if window not in self._biases:
            num_keys = max(map(len, self.pages)) * self.page_size
            keys = torch.arange(self.start, self.start + num_keys, device=positions.device)
            distance = positions[:, :, None] - keys
            is_seen = distance >= 0
            if window is not None:
                is_seen &= distance < window
            bias = torch.zeros(is_seen.shape, dtype=dtype, device=keys.device)
            bias.masked_fill_(~is_seen, float("-inf"))
            self._biases[window] = bias.repeat(1, repeats, 1)[:, None]
        return self._biases[window]


@dataclass(frozen=True, slots=True)
class Group:
    """Sequences with the same number of queries, attended to as one padded batch.

    `tokens` [sequences * queries]: where in the packed row they are; `positions` [sequences, queries].
    `shared` are keys that all of them see, if there are such, and `own` the rest.
    """

    tokens: Tensor
    positions: Tensor
    own: Span
    shared: Span | None = None


@dataclass(frozen=True, slots=True)
class Gathered:
    """The queries of a batch, in groups."""

    groups: tuple[Group, ...]

    @classmethod
    def of(cls, chunks: tuple[Chunk, ...], page_size: int, device: torch.device) -> "Gathered":
        """Single queries with whom they share a first page, or else by length; longer chunks alone."""
        first_pages = Counter(c.sequence.page_table[0] for c in chunks if c.num_tokens == 1)
        members: defaultdict[tuple[int, ...], list[tuple[int, Chunk]]] = defaultdict(list)
        offset = 0
        for chunk in chunks:
            table = chunk.sequence.page_table
            if chunk.num_tokens > 1:
                key: tuple[int, ...] = (offset,)
            elif first_pages[table[0]] > 1:
                key = (-1, table[0])
            else:
                key = (-2, len(table).bit_length())
            members[key].append((offset, chunk))
            offset += chunk.num_tokens
        return cls(tuple(_group(group, page_size, device) for group in members.values()))

    def attend(self, query: Tensor, keys: Tensor, values: Tensor, scoring: Scoring) -> Tensor:
        """[heads, tokens, dim] to [tokens, heads, dim], over one layer of a `KVCache`."""
        output = query.new_empty(query.shape[1], query.shape[0], values.shape[-1])
        for group in self.groups:
            found = _attend(query.index_select(1, group.tokens), keys, values, group, scoring)
            output[group.tokens] = found
        return output


def _group(members: list[tuple[int, Chunk]], size: int, device: torch.device) -> Group:
    tables = [c.sequence.page_table[: -(-c.end // size)] for _, c in members]
    num_shared = _num_shared(tables)
    tokens = [offset + i for offset, chunk in members for i in range(chunk.num_tokens)]
    return Group(
        tokens=upload(tokens, device),
        positions=upload([range(c.start, c.end) for _, c in members], device),
        own=Span([table[num_shared:] for table in tables], num_shared * size, size),
        shared=Span([tables[0][:num_shared]], 0, size) if num_shared else None,
    )


def _num_shared(tables: list[list[int]]) -> int:
    """How many pages all of several tables begin with; the last page of a table is always its own."""
    if len(tables) == 1:
        return 0
    columns = zip(*tables, strict=False)
    return sum(1 for _ in takewhile(lambda pages: len(set(pages)) == 1, columns))


def _attend(query: Tensor, keys: Tensor, values: Tensor, group: Group, scoring: Scoring) -> Tensor:
    """One group: [heads, sequences * queries, dim] to [sequences * queries, heads, dim].

    Query heads that share a key head become more queries of that head, so that keys are never repeated.
    """
    heads, _, dim = query.shape
    num, length = group.positions.shape
    kv_heads = keys.shape[2]
    repeats = heads // kv_heads
    query = query.view(kv_heads, repeats, num, length, dim).permute(2, 0, 1, 3, 4)
    query = query.reshape(num, kv_heads, repeats * length, dim)
    if group.shared is None and scoring.softcap is None and scoring.sinks is None:
        bias = group.own.bias(group.positions, scoring.window, repeats, query.dtype)
        output = scaled_dot_product_attention(
            query, group.own.read(keys), group.own.read(values), attn_mask=bias, scale=scoring.scaling
        )
    else:
        output = _attend_in_parts(query, keys, values, group, scoring)
    output = output.view(num, kv_heads, repeats, length, -1).permute(0, 3, 1, 2, 4)
    return output.reshape(num * length, heads, -1)


def _attend_in_parts(query: Tensor, keys: Tensor, values: Tensor, group: Group, scoring: Scoring) -> Tensor:
    """Attend to each span by itself; a part weighs as much as its share of the whole sum of exponentials."""
    num, kv_heads, length, dim = query.shape
    repeats = length // group.positions.shape[1]
    bias = group.own.bias(group.positions, scoring.window, repeats, query.dtype)
    parts = [_attend_to(query, group.own.read(keys), group.own.read(values), bias, scoring)]
    if group.shared is not None:
        together = query.transpose(0, 1).reshape(1, kv_heads, num * length, dim)
        bias = group.shared.bias(group.positions, scoring.window, repeats, query.dtype)
        bias = bias.flatten(0, 2)[None, None]
        part = _attend_to(together, group.shared.read(keys), group.shared.read(values), bias, scoring)
        output, mass = (states.view(kv_heads, num, length, -1).transpose(0, 1) for states in part)
        parts.append((output, mass))
    total = torch.stack([mass for _, mass in parts]).logsumexp(dim=0)
    if scoring.sinks is not None:
        sinks = scoring.sinks.view(1, kv_heads, repeats, 1).expand(-1, -1, -1, length // repeats)
        total = total.logaddexp(sinks.reshape(1, kv_heads, length, 1).float())
    return torch.stack([output * (mass - total).exp().to(output.dtype) for output, mass in parts]).sum(dim=0)


def _attend_to(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor, scoring: Scoring
) -> tuple[Tensor, Tensor]:
    """Attention to some of the keys, and the log of the sum of exponentials of their scores.

    torch's own kernel gives both, where a query sees a key at least and its scores are as they come.
    """
    if query.device.type == "cpu" and scoring.window is None and scoring.softcap is None:
        output, mass = _flash_attention_on_cpu(query, key, value, attn_mask=bias, scale=scoring.scaling)
        return output, mass.unsqueeze(-1)
    scale = query.shape[-1] ** -0.5 if scoring.scaling is None else scoring.scaling
    scores = (query @ key.transpose(2, 3)).float() * scale
    if scoring.softcap is not None:
        scores = torch.tanh(scores / scoring.softcap) * scoring.softcap
    scores = scores + bias
    # Where no key is seen the sum is zero; its logarithm stays finite, so that no NaN comes of it.
    mass = scores.logsumexp(dim=-1, keepdim=True).clamp(min=torch.finfo(torch.float32).min)
    return (scores - mass).exp().to(value.dtype) @ value, mass


def pad_tables(tables: Iterable[list[int]], device: torch.device) -> Tensor:
    """Page tables as one tensor [sequences, longest], padded with the null page."""
    rows = list(tables)
    longest = max(map(len, rows))
    return upload([row + [NULL_PAGE] * (longest - len(row)) for row in rows], device)
