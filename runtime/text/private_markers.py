"""Private names of marker tokens, which only the chat template can write.

A tokenizer finds the text of a marker token (such as `<|im_end|>`) anywhere in a prompt, even in what a user
wrote, or in what a model was talked into repeating. So every marker gets a private name: digits that are
drawn anew in each process. The names stand for the markers in two places:

- in the constants of the chat template, so that the template writes the names;
- in a copy of the tokenizer, so that it finds the names and nothing else.

To that copy the text `<|im_end|>` is text, whatever the template does with the message that it stands in: cut
it, join it, or write it between angle brackets. Messages reach the template as they are, and one call
tokenizes the whole prompt.
"""

import re
import secrets
from collections.abc import Iterable, Mapping
from typing import Any

from jinja2 import Environment
from tokenizers import AddedToken, Tokenizer

ROLES = ("system", "user", "assistant", "tool")


class PrivateMarkers:
    """The private names of a transformers tokenizer's markers. Several threads may use it at once.

    Raises:
        ValueError: the tokenizer has no fast form.
    """

    _not_text: frozenset[int]
    """Markers that are entries of the tokenizer's model too, which hardly any model makes of text."""

    def __init__(self, tokenizer: Any) -> None:
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if backend is None:
            raise ValueError("it has no tokenizer.json, which is needed to tell text from marker tokens")
        nonce = str(secrets.randbits(128))
        added: Mapping[int, AddedToken] = tokenizer.added_tokens_decoder
        markers = {str(token): token_id for token_id, token in added.items() if _is_marker(token)}
        self._names = {text: f"<{nonce}{i:06}>" for text, i in markers.items()}
        self._texts = {name: text for text, name in self._names.items()}
        self._tokenizer, self._real_ids = _copy(backend, added, self._names, nonce)
        in_model = set(backend.get_vocab(with_added_tokens=False).values())
        self._not_text = frozenset(in_model.intersection(markers.values()))
        # With a backslash, a template's constant has other characters than its source shows.
        self._marker_text = _any_of(text for text in markers if "\\" not in text)
        self._name = _any_of(self._texts)
        self._role_markers = RoleMarkers(self._names, nonce)

    def name(self, text: str) -> str:
        """The private name of a marker; any other text is returned unchanged."""
        return self._names.get(text, text)

    def rename(self, template: str) -> str:
        """A chat template that writes the names of markers."""
        source = re.sub(r"\r\n?", "\n", template)
        renamed, at = "", 0
        for _, kind, text in Environment(keep_trailing_newline=True).lex(source):  # noqa: S701 - renders nothing
            begin = source.index(text, at)  # blanks that `{%-` strips are no tokens
            renamed += source[at:begin] + self._rename(kind, text)
            at = begin + len(text)
        return renamed + source[at:]

    def restore(self, text: str) -> str:
        """A text that the template wrote, such as an error, with the markers as readers know them."""
        return self._name.sub(lambda match: self._texts[match[0]], self._role_markers.remove(text))

    def encode(self, prompt: str) -> list[int]:
        """The token ids of what the renamed template rendered.

        Raises:
            ValueError: the tokenizer's model makes a marker of text.
        """
        prompt = self._role_markers.join(prompt)
        token_ids = self._tokenizer.encode_batch_fast([prompt], add_special_tokens=False)[0].ids
        if not self._not_text.isdisjoint(token_ids):
            marker = self._tokenizer.id_to_token(next(i for i in token_ids if i in self._not_text))
            raise ValueError(f"its tokenizer cannot write {marker!r} as text; remove it from the messages")
        return [self._real_ids.get(i, i) for i in token_ids]

    def _rename(self, kind: str, text: str) -> str:
        if kind not in {"data", "string"}:
            return text
        quote = text[0] if kind == "string" else ""
        constant = text[1:-1] if quote else text
        renamed = self._marker_text.sub(lambda match: self._names[match[0]], constant)
        return f"{quote}{self._role_markers.mark(renamed)}{quote}"


class RoleMarkers:
    """Markers that a template joins from constants and a role: `'<|' + message.role + '|>'`.

    Private marks go before the one constant and after the other. A marker between both is the template's.
    """

    def __init__(self, names: Mapping[str, str], nonce: str) -> None:
        self._names = {text: name for text, name in names.items() if any(role in text for role in ROLES)}
        parts = [text.partition(role) for text in self._names for role in ROLES if role in text]
        before, after = _any_of(part[0] for part in parts), _any_of(part[2] for part in parts)
        self._begin, self._end = f"<{nonce}begin>", f"<{nonce}end>"
        self._before, self._after = re.compile(rf"(?:{before.pattern})\Z"), after
        self._marked = re.compile(f"{self._begin}({_any_of(self._names).pattern}){self._end}")

    def mark(self, constant: str) -> str:
        """A constant of the template with the marks, if it begins or ends as constants of such markers do."""
        if first := self._after.match(constant):
            constant = f"{first[0]}{self._end}{constant[first.end() :]}"
        if last := self._before.search(constant):
            constant = f"{constant[: last.start()]}{self._begin}{last[0]}"
        return constant

    def join(self, prompt: str) -> str:
        """A rendered prompt with the names of the markers in it, without marks."""
        return self.remove(self._marked.sub(lambda match: self._names[match[1]], prompt))

    def remove(self, text: str) -> str:
        """A text without marks."""
        return text.replace(self._begin, "").replace(self._end, "")


def _is_marker(token: AddedToken) -> bool:
    """Whether an added token is a marker. Some vocabularies add words and runs of blanks: these are text."""
    text = str(token)
    return len(text) > 1 and bool(text.strip()) and (token.special or not text.isalnum())


def _any_of(texts: Iterable[str]) -> re.Pattern[str]:
    """Finds the longest of the texts; nothing if there are none or they are empty."""
    longest_first = sorted(filter(None, texts), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, dict.fromkeys(longest_first))) or r"(?!)")


def _copy(
    backend: Tokenizer, added: Mapping[int, AddedToken], names: Mapping[str, str], nonce: str
) -> tuple[Tokenizer, dict[int, int]]:
    """A tokenizer of the same model whose markers have their names, and the real id for each id of these."""
    copy = Tokenizer(backend.model)
    if backend.normalizer is not None:
        copy.normalizer = backend.normalizer
    if backend.pre_tokenizer is not None:
        copy.pre_tokenizer = backend.pre_tokenizer
    ids_of_text = copy.get_vocab(with_added_tokens=False).values()
    # Added tokens are numbered from the count of the model's tokens on. Where the model left ids out, these
    # numbers would be ids of its text: other added tokens take them first.
    num_skipped = max(ids_of_text, default=-1) + 1 - len(ids_of_text)
    copy.add_tokens([AddedToken(f"<{nonce}skip{i}>", normalized=False) for i in range(num_skipped)])
    renamed = {token_id: names.get(str(token), str(token)) for token_id, token in added.items()}
    copy.add_tokens([_with_text(added[token_id], text) for token_id, text in renamed.items()])
    new_ids = {token_id: copy.token_to_id(text) for token_id, text in renamed.items()}
    return copy, {new_id: token_id for token_id, new_id in new_ids.items() if new_id is not None}


def _with_text(token: AddedToken, text: str) -> AddedToken:
    return AddedToken(
        text,
        single_word=token.single_word,
        lstrip=token.lstrip,
        rstrip=token.rstrip,
        normalized=token.normalized,
    )
