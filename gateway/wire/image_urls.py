"""Images in messages: they come with the request, as data URLs."""

import binascii
import re
from collections.abc import Iterable
from typing import NamedTuple

from gateway.errors import InvalidField
from gateway.wire.image_sizes import num_pixels
from runtime.request import Image

_DATA_URL = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+={0,2}")


class ImageURL(NamedTuple):
    """What a client sent as an image, and the path of that field."""

    url: str
    path: str


def text_and_images(pieces: Iterable[str | ImageURL]) -> tuple[str, tuple[Image, ...]]:
    """The text of a message, and the images in it.

    Raises:
        InvalidField: an image is not a data URL, or not an image. An engine would fetch any other URL for the
        client, from inside its own network.
    """
    text, images = "", []
    for piece in pieces:
        if isinstance(piece, str):
            text += piece
        elif _DATA_URL.fullmatch(piece.url):
            images.append(Image(piece.url, len(text), _num_pixels(piece)))
        else:
            raise InvalidField(
                piece.path,
                "an image must be a data URL of a PNG, JPEG, GIF or WebP, such as data:image/png;base64,…;"
                " nothing is fetched from addresses",
            )
    return text, tuple(images)


def _num_pixels(image: ImageURL) -> int:
    try:
        num_in_image = num_pixels(binascii.a2b_base64(image.url.partition(",")[2]))
    except binascii.Error as error:
        raise InvalidField(image.path, f"it is not base64: {error}") from error
    if num_in_image is None:
        raise InvalidField(image.path, "what it holds is no whole PNG, JPEG, GIF or WebP; send one of these")
    return num_in_image
