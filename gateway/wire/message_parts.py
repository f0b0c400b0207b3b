"""Parts of a message: each says a text, shows an image, or does neither.

Every API has its own parts. They become the text of one message, with the images at their places in it.
"""

import binascii
import re
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from gateway.errors import InvalidField
from gateway.wire.images import num_pixels
from runtime.request import Image

_DATA_URL = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+={0,2}")


class ShownImage(NamedTuple):
    """The URL of an image, and the field of its part that has it."""

    url: str
    field: str


class Part(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, tag_field="type"):
    """A part of a message."""

    @property
    def said(self) -> str:
        """Its text in the message."""
        return ""

    @property
    def shown(self) -> ShownImage | None:
        """Its image in the message."""
        return None


class TextPart(Part):
    """A part that is a text."""

    text: str

    @property
    def said(self) -> str:
        """The text."""
        return self.text


class RefusalPart(Part, tag="refusal"):
    """What the model refused to do, in the APIs of OpenAI."""

    refusal: str

    @property
    def said(self) -> str:
        """The refusal."""
        return self.refusal


def text_of(content: str | Sequence[Part] | None) -> str:
    """The text of a message."""
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(part.said for part in content)


def images_of(content: str | Sequence[Part], path: str) -> tuple[Image, ...]:
    """The images of a message, whose content the request has at `path`.

    Raises:
        InvalidField: an image is not a data URL, or not an image. An engine would fetch any other URL for the
            client, from inside its own network.
    """
    images, at = [], 0
    for i, part in enumerate(content if not isinstance(content, str) else ()):
        at += len(part.said)
        if part.shown is not None:
            url, field = part.shown
            images.append(Image(url, at, _pixels_of(url, f"{path}[{i}].{field}")))
    return tuple(images)


def _pixels_of(url: str, path: str) -> int:
    if not _DATA_URL.fullmatch(url):
        raise InvalidField(
            path,
            "an image must be a data URL of a PNG, JPEG, GIF or WebP, such as data:image/png;base64,…;"
            " nothing is fetched from addresses",
        )
    try:
        num_in_image = num_pixels(binascii.a2b_base64(url.partition(",")[2]))
    except binascii.Error as error:
        raise InvalidField(path, f"it is not base64: {error}") from error
    if num_in_image is None:
        raise InvalidField(path, "what it holds is no whole PNG, JPEG, GIF or WebP; send one of these")
    return num_in_image
