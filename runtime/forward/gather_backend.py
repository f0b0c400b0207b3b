"""The gather backend: attention that gathers pages with torch's own operators, on any device.

Adjacent pages are read in place. Sequences that begin with the same pages attend to these together, once.
Each query's attention to the shared keys and to its own keys is then joined by their log-sum-exp.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import takewhile

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from runtime.device import upload
from runtime.forward import bfloat16_attention
from runtime.forward.attention import Scoring
from runtime.forward.query_tiles import ALL, WHOLE, Tile, causal_tiles, past_tiles
from runtime.scheduling.batch import Chunk
from runtime.scheduling.page_pool import NULL_PAGE

# The public function of torch does not return the log-sum-exp.
_flash_attention_on_cpu = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu  # noqa: SLF001

_FUSED_TILE_QUERIES = 128
"""Torch's fused attention on a CPU also computes scores that a mask hides. So a chunk is cut into tiles."""


@dataclass(slots=True)
class KeySpan:
    """Consecutive keys from position `start` on: a list of pages per sequence, or one list that all share.

    `is_past` says that every query comes after all of these keys.
    """

    pages: list[list[int]]
    start: int
    page_size: int
    is_past: bool = False
    _index: Tensor | None = None
    _biases: dict[tuple[int | None, int, int], Tensor] = field(default_factory=dict)

    def read(self, states: Tensor) -> Tensor:
        """The keys or values of a layer as [rows, num_kv_heads, num_keys, head_dim]."""
        first = self.pages[0]
        if len(self.pages) == 1 and first[-1] - first[0] == len(first) - 1 and first == sorted(first):
            rows = states[None, first[0] : first[-1] + 1]
        else:
            if self._index is None:
                self._index = pad_tables(self.pages, states.device)
            # On a CPU, `index_select` copies whole pages: it takes a fifth of the time of `states[index]`.
            pages = states.index_select(0, self._index.flatten())
            rows = pages.view(*self._index.shape, *states.shape[1:])
        return rows.flatten(1, 2).transpose(1, 2)

    def bias_for(
        self, positions: Tensor, window: int | None, dtype: torch.dtype, repeats: int, rows: slice = ALL
    ) -> Tensor | None:
        """[sequences, 1, repeats * queries, keys]: 0 where a query at `positions` sees a key, else -inf.

        None if every query sees every key. `positions` are [sequences, queries]; `rows` of them are meant.
        """
        if self.is_past and window is None:
            return None
        name = window, repeats, rows.start
        if name not in self._biases:
            num_keys = max(map(len, self.pages)) * self.page_size
            keys = torch.arange(self.start, self.start + num_keys, device=positions.device)
            distance = positions[:, rows, None] - keys
            is_seen = distance >= 0
            if window is not None:
                is_seen &= distance < window
            bias = torch.zeros(is_seen.shape, dtype=dtype, device=keys.device)
            bias.masked_fill_(~is_seen, float("-inf"))
            self._biases[name] = bias.repeat(1, repeats, 1)[:, None]
        return self._biases[name]


@dataclass(frozen=True, slots=True)
class QueryGroup:
    """Sequences of a prefix group with the same number of queries, computed as one padded batch.

    `rows` are their queries among those of the prefix group; `positions` [sequences, queries]. Each query
    sees at least one of the keys in `own_keys`.
    """

    rows: slice
    positions: Tensor
    own_keys: KeySpan


@dataclass(frozen=True, slots=True)
class PrefixGroup:
    """Sequences that begin with the same pages; all their queries come after the keys in these pages.

    `tokens` [queries] are the queries' indices in the packed row; `positions` [1, queries].
    """

    tokens: Tensor
    positions: Tensor
    groups: tuple[QueryGroup, ...]
    shared_keys: KeySpan | None


_Member = tuple[int, Chunk]
"""A chunk, and its first index in the packed row."""


@dataclass(frozen=True, slots=True)
class GatherBackend:
    """The queries of a batch, by prefix group."""

    prefix_groups: tuple[PrefixGroup, ...]

    @classmethod
    def of(cls, chunks: tuple[Chunk, ...], page_size: int, device: torch.device) -> "GatherBackend":
        """Group each sequence with those that it shares most pages with.

        Among the other sequences, decoding sequences of similar length form a group, and each longer chunk is
        alone.
        """
        num_sharing = Counter(prefix for chunk in chunks for prefix in _prefixes(chunk, page_size))
        members: defaultdict[tuple[int, ...], list[_Member]] = defaultdict(list)
        offset = 0
        for chunk in chunks:
            shared = (prefix for prefix in reversed(_prefixes(chunk, page_size)) if num_sharing[prefix] > 1)
            alone = (
                (-1, offset) if chunk.num_tokens > 1 else (-2, len(chunk.sequence.page_table).bit_length())
            )
            members[next(shared, alone)].append((offset, chunk))
            offset += chunk.num_tokens
        return cls(
            tuple(_prefix_group(group_members, page_size, device) for group_members in members.values())
        )

    def attend(self, query: Tensor, keys: Tensor, values: Tensor, scoring: Scoring) -> Tensor:
        """Attention [tokens, heads, dim] of queries [heads, tokens, dim] to one layer of a `KVCache`."""
        output = query.new_empty(query.shape[1], query.shape[0], values.shape[-1])
        for group in self.prefix_groups:
            attended = _attend_prefix_group(query.index_select(1, group.tokens), keys, values, group, scoring)
            output[group.tokens] = attended
        return output


def _prefixes(chunk: Chunk, size: int) -> list[tuple[int, int]]:
    """Prefixes before the chunk whose lengths are powers of two: (number of pages, last page) each."""
    num_before = chunk.start // size
    lengths = (1 << exponent for exponent in range(num_before.bit_length()))
    return [(length, chunk.sequence.page_table[length - 1]) for length in lengths]


def _prefix_group(members: list[_Member], size: int, device: torch.device) -> PrefixGroup:
    tables = [chunk.sequence.page_table[: -(-chunk.end // size)] for _, chunk in members]
    num_shared = min(_num_shared(tables), *(chunk.start // size for _, chunk in members))
    alike: defaultdict[tuple[int, int], list[tuple[_Member, list[int]]]] = defaultdict(list)
    for member, table in zip(members, tables, strict=True):
        own = table[num_shared:]
        alike[member[1].num_tokens, len(own).bit_length()].append((member, own))
    groups: list[QueryGroup] = []
    tokens: list[int] = []
    positions: list[int] = []
    for (num_tokens, _), group in alike.items():
        rows = slice(len(tokens), len(tokens) + num_tokens * len(group))
        at = [list(range(chunk.start, chunk.end)) for (_, chunk), _ in group]
        own_keys = KeySpan([own for _, own in group], num_shared * size, size)
        groups.append(QueryGroup(rows, upload(at, device), own_keys))
        tokens += [offset + i for (offset, _), _ in group for i in range(num_tokens)]
        positions += [position for row in at for position in row]
    shared = KeySpan([tables[0][:num_shared]], 0, size, is_past=True) if num_shared else None
    return PrefixGroup(upload(tokens, device), upload([positions], device), tuple(groups), shared)


def _num_shared(tables: list[list[int]]) -> int:
    """The number of pages with which all page tables begin; 0 for a single table, which shares none."""
    if len(tables) == 1:
        return 0
    columns = zip(*tables, strict=False)
    return sum(1 for _ in takewhile(lambda pages: len(set(pages)) == 1, columns))


def _attend_prefix_group(
    query: Tensor, keys: Tensor, values: Tensor, prefix_group: PrefixGroup, scoring: Scoring
) -> Tensor:
    """Attention of one prefix group: [heads, queries, dim] to [queries, heads, dim].

    Each query attends separately to its own keys and to the shared ones; then both are joined.
    """
    shared, groups = prefix_group.shared_keys, prefix_group.groups
    if shared is None and len(groups) == 1 and scoring.softcap is None and scoring.sinks is None:
        return _attend_unshared(query, keys, values, groups[0], scoring)
    own = [
        _attend_to_span(
            query[:, group.rows], keys, values, scoring, span=group.own_keys, positions=group.positions
        )
        for group in groups
    ]
    parts = [(torch.cat([output for output, _ in own]), torch.cat([lse for _, lse in own]))]
    if shared is not None:
        parts.append(
            _attend_to_span(query, keys, values, scoring, span=shared, positions=prefix_group.positions)
        )
    return _join_parts(parts, scoring.sinks)


def _join_parts(parts: list[tuple[Tensor, Tensor]], sinks: Tensor | None) -> Tensor:
    """Join attention to parts of the keys, each weighted by its share of the sum of exponentials."""
    total = torch.stack([lse for _, lse in parts]).logsumexp(dim=0)
    if sinks is not None:
        total = total.logaddexp(sinks.view(1, -1, 1).float())
    return torch.stack([output * (lse - total).exp().to(output.dtype) for output, lse in parts]).sum(dim=0)


def _attend_unshared(
    query: Tensor, keys: Tensor, values: Tensor, group: QueryGroup, scoring: Scoring
) -> Tensor:
    """Attention [queries, heads, dim] of sequences that share no keys, where scores are plain."""
    span, positions = group.own_keys, group.positions
    if len(positions) == 1 and bfloat16_attention.is_faster(query):
        return _attend_in_tiles(query, keys, values, scoring, span=span, positions=positions)
    tiles: Iterable[Tile] = [WHOLE]
    if len(positions) == 1 and query.device.type == "cpu":
        first_key = int(positions[0, 0]) - span.start
        tiles = causal_tiles(query.shape[1], first_key, scoring.window, size=_FUSED_TILE_QUERIES)
    query = _by_sequence(query, positions)
    key, value = span.read(keys), span.read(values)
    attended = [_attend_tile(query, key, value, tile=tile, group=group, scoring=scoring) for tile in tiles]
    return attended[0] if len(attended) == 1 else torch.cat(attended)


def _attend_tile(
    query: Tensor, key: Tensor, value: Tensor, *, tile: Tile, group: QueryGroup, scoring: Scoring
) -> Tensor:
    """Attention [sequences * queries, heads, dim] of a tile of queries [heads, sequences, queries, dim]."""
    rows, positions = query[:, :, tile.rows], group.positions[:, tile.rows]
    batch = _by_kv_head(rows, key.shape[1])
    repeats = batch.shape[2] // positions.shape[1]
    bias = group.own_keys.bias_for(group.positions, scoring.window, batch.dtype, repeats, tile.rows)
    if bfloat16_attention.is_faster_for_sequences(batch):
        output, _ = bfloat16_attention.attend_sequences(batch, key, value, bias=bias, scaling=scoring.scaling)
        return _by_query(output, positions, query.shape[0])
    output = scaled_dot_product_attention(
        batch,
        key[:, :, tile.columns],
        value[:, :, tile.columns],
        attn_mask=None if bias is None else bias[..., tile.columns],
        scale=scoring.scaling,
    )
    return _by_query(output, positions, query.shape[0])


def _attend_in_tiles(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    scoring: Scoring,
    *,
    span: KeySpan,
    positions: Tensor,
    lse: Tensor | None = None,
) -> Tensor:
    """Attention [queries, heads, dim] of consecutive queries to their sequence, or of any to a past span."""
    (key,), (value,) = span.read(keys), span.read(values)
    bias = span.bias_for(positions, scoring.window, query.dtype, repeats=1)
    if bias is None:
        tiles = past_tiles(query.shape[1], key.shape[1], size=bfloat16_attention.TILE_QUERIES)
    else:
        bias = bias[0, 0]
        first_key = int(positions[0, 0]) - span.start
        size = bfloat16_attention.TILE_QUERIES
        tiles = causal_tiles(query.shape[1], first_key, scoring.window, size=size)
    return bfloat16_attention.attend(query, key, value, tiles, bias=bias, scaling=scoring.scaling, lse=lse)


def _attend_to_span(
    query: Tensor, keys: Tensor, values: Tensor, scoring: Scoring, *, span: KeySpan, positions: Tensor
) -> tuple[Tensor, Tensor]:
    """Attention [queries, heads, dim] to a span of keys, and the log-sum-exp of its scores."""
    heads, num_queries, _ = query.shape
    is_plain = scoring.window is None and scoring.softcap is None
    if is_plain and len(positions) == 1 and bfloat16_attention.is_faster(query):
        lse = torch.empty(num_queries, heads, 1)
        output = _attend_in_tiles(query, keys, values, scoring, span=span, positions=positions, lse=lse)
        return output, lse
    batch = _by_kv_head(_by_sequence(query, positions), keys.shape[2])
    bias = span.bias_for(positions, scoring.window, batch.dtype, batch.shape[2] // positions.shape[1])
    attended = _attend_to_keys(batch, span.read(keys), span.read(values), bias, scoring)
    output, lse = (_by_query(states, positions, heads) for states in attended)
    return output, lse


def _by_sequence(query: Tensor, positions: Tensor) -> Tensor:
    """[heads, sequences * queries, dim] to [heads, sequences, queries, dim]."""
    return query.view(query.shape[0], *positions.shape, query.shape[-1])


def _by_kv_head(query: Tensor, kv_heads: int) -> Tensor:
    """[heads, sequences, queries, dim] to [sequences, kv_heads, repeats * queries, dim].

    Query heads that share a key head become additional queries of that head, so that no key is copied.
    """
    heads, num, length, dim = query.shape
    query = query.reshape(kv_heads, heads // kv_heads, num, length, dim).permute(2, 0, 1, 3, 4)
    return query.reshape(num, kv_heads, -1, dim)


def _by_query(states: Tensor, positions: Tensor, heads: int) -> Tensor:
    """[sequences, kv_heads, repeats * queries, dim] to [sequences * queries, heads, dim]."""
    num, length = positions.shape
    states = states.reshape(num, states.shape[1], -1, length, states.shape[-1]).permute(0, 3, 1, 2, 4)
    return states.reshape(num * length, heads, -1)


def _attend_to_keys(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, scoring: Scoring
) -> tuple[Tensor, Tensor]:
    """Attention to some of the keys, and the log-sum-exp of their scores.

    Torch's CPU kernel returns both. It needs plain scores, values as wide as keys, and for each query at
    least one key that it sees.
    """
    is_plain = scoring.window is None and scoring.softcap is None and key.shape[-1] == value.shape[-1]
    if is_plain and bfloat16_attention.is_faster_for_sequences(query):
        return bfloat16_attention.attend_sequences(query, key, value, bias=bias, scaling=scoring.scaling)
    if is_plain and query.device.type == "cpu":
        output, lse = _flash_attention_on_cpu(query, key, value, attn_mask=bias, scale=scoring.scaling)
        return output, lse.unsqueeze(-1)
    scale = query.shape[-1] ** -0.5 if scoring.scaling is None else scoring.scaling
    scores = (query @ key.transpose(2, 3)).float() * scale
    if scoring.softcap is not None:
        scores = torch.tanh(scores / scoring.softcap) * scoring.softcap
    if bias is not None:
        scores = scores + bias
    # For a query that sees no key the sum is zero; a finite logarithm keeps its output from being NaN.
    lse = scores.logsumexp(dim=-1, keepdim=True).clamp(min=torch.finfo(torch.float32).min)
    return (scores - lse).exp().to(value.dtype) @ value, lse


def pad_tables(tables: Iterable[list[int]], device: torch.device) -> Tensor:
    """Page tables as one tensor [sequences, longest], padded with the null page."""
    rows = list(tables)
    longest = max(map(len, rows))
    return upload([row + [NULL_PAGE] * (longest - len(row)) for row in rows], device)
