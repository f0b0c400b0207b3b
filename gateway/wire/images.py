r"""The formats and sizes of images, read from their headers.

An engine decodes whatever it gets. A decoded image takes three bytes or more per pixel, and a PNG of 20 KB
may have 180 million pixels. So the size is checked before an engine sees the image. Engines' image libraries
recognise dozens of other formats by their first bytes; some of those run programs.

>>> num_pixels(b"GIF89a\x02\x00\x03\x00\x00\x00\x00\x2c\x00\x00\x00\x00\x02\x00\x03\x00\x00")
6
>>> num_pixels(b"%!PS-Adobe-3.0 EPSF-3.0")  # no such image
"""

import struct

_MAX_BLOCKS = 4_096
"""Before the pixels, the headers of one image have fewer."""
_SIZES_OF_JPEG = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_TABLES_OF_JPEG = frozenset({0xC4, 0xCC, 0xDB, 0xDD, 0xFE, *range(0xE0, 0xF0)})
"""Markers that may stand before the pixels, all with a length. Of others, readers skip different bytes."""
_PIXELS_OF_JPEG = 0xDA
_APPLICATION_OF_GIF = 0xFF


def num_pixels(data: bytes) -> int | None:
    """Width times height of a PNG, JPEG, GIF or WebP; None for a damaged image or another format.

    If its headers name several sizes, this is the largest, because readers differ in which one they use. What
    readers would not read alike counts as damaged.
    """
    try:
        if data.startswith(b"\x89PNG\r\n\x1a\n"):
            return _of_png(data)
        if data.startswith(b"\xff\xd8\xff"):
            return _of_jpeg(data)
        if data.startswith((b"GIF87a", b"GIF89a")):
            return _of_gif(data)
        if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
            return _of_webp(data)
    except (struct.error, IndexError):
        pass  # it is cut short
    return None


def _of_png(data: bytes) -> int | None:
    at, most = 8, 0
    for _ in range(_MAX_BLOCKS):
        length, kind = struct.unpack_from(">I4s", data, at)
        if kind == b"IHDR":
            width, height = struct.unpack_from(">II", data, at + 8)
            most = max(most, width * height)
        elif kind == b"IDAT":
            return most or None
        at += 12 + length
    return None


def _of_jpeg(data: bytes) -> int | None:
    at, most = 2, 0
    for _ in range(_MAX_BLOCKS):
        begin, kind, length = struct.unpack_from(">BBH", data, at)
        if begin != 0xFF:
            return None
        if kind == 0xFF:  # it may stand there more than once
            at += 1
            continue
        if kind == _PIXELS_OF_JPEG:
            return most or None
        if kind in _SIZES_OF_JPEG:
            height, width = struct.unpack_from(">HH", data, at + 5)
            most = max(most, width * height)
        elif kind not in _TABLES_OF_JPEG:
            return None
        at += 2 + length
    return None


def _of_gif(data: bytes) -> int | None:
    """The screen, and its first picture, which may be larger."""
    width, height, flags = struct.unpack_from("<HHB", data, 6)
    at = 13 + _bytes_of_colours(flags)
    for _ in range(_MAX_BLOCKS):
        kind = data[at]
        if kind == 0x2C:
            left, top, wide, high = struct.unpack_from("<4H", data, at + 1)
            return max(width, left + wide) * max(height, top + high) or None
        if kind != 0x21:
            return None
        label, num_blocks = data[at + 1], 0
        at += 2
        while data[at]:
            at += 1 + data[at]
            num_blocks += 1
        if num_blocks < (2 if label == _APPLICATION_OF_GIF else 1):
            return None  # after an extension without its blocks, some readers skip what follows
        at += 1
    return None


def _bytes_of_colours(flags: int) -> int:
    return 3 << ((flags & 7) + 1) if flags & 0x80 else 0


def _of_webp(data: bytes) -> int | None:
    kind = data[12:16]
    if kind == b"VP8X":
        wide, high = (int.from_bytes(data[at : at + 3], "little") for at in (24, 27))
        return (wide + 1) * (high + 1) if len(data) >= 30 else None
    if kind == b"VP8L":
        bits: int = struct.unpack_from("<I", data, 21)[0]
        return ((bits & 0x3FFF) + 1) * ((bits >> 14 & 0x3FFF) + 1)
    if kind == b"VP8 ":
        width, height = struct.unpack_from("<HH", data, 26)
        return (width & 0x3FFF) * (height & 0x3FFF) or None
    return None
