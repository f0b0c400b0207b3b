"""JSON pointers (RFC 6901): where a value is inside another one."""

from collections.abc import Iterable

from toolspecs.nearest import shorten

_MAX_KEY = 200


def child(pointer: str, *path: str | int) -> str:
    """The pointer to what `path` leads to from there.

    >>> child("/properties", "a/b", "items")
    '/properties/a~1b/items'
    """
    for key in path:
        pointer += f"/{_escaped(key)}"
    return pointer


def shown_pointer(base: str, path: Iterable[str | int]) -> str:
    """As `child`, for people: of very long keys only the beginning.

    >>> shown_pointer("/tools/0", ("properties", 300 * "a"))[:30]
    '/tools/0/properties/aaaaaaaaaa'
    """
    return base + "".join(f"/{shorten(_escaped(key), _MAX_KEY)}" for key in path)


def pointer_keys(pointer: str) -> tuple[str, ...]:
    """The keys of a pointer, unescaped.

    >>> pointer_keys("/a~1b/0")
    ('a/b', '0')
    """
    return tuple(key.replace("~1", "/").replace("~0", "~") for key in pointer.split("/")[1:])


def is_index(key: str) -> bool:
    """Whether a key may be the index of an item; no list has over a thousand million items.

    >>> is_index("12"), is_index("-1"), is_index("²"), is_index(5_000 * "1")
    (True, False, False, False)
    """
    return len(key) < 10 and key.isascii() and key.isdigit()


def _escaped(key: str | int) -> str:
    return str(key).replace("~", "~0").replace("/", "~1")
