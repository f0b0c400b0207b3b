"""References between schema documents: what a URI in `$ref` means where it stands."""

from urllib.parse import unquote, urldefrag, urljoin

KEYWORDS = ("$ref", "$dynamicRef", "$recursiveRef")


def absolute(base: str, reference: str) -> tuple[str, str]:
    """The URI of the document that `reference` leads to from `base`, and the fragment, decoded.

    Both are empty where the reference is no URI.
    """
    try:
        # `urljoin` leaves a fragment alone that stands behind a URN.
        uri, fragment = urldefrag(base + reference if reference[:1] == "#" else urljoin(base, reference))
    except ValueError:
        return "", ""
    return uri, unquote(fragment)


def pointer_keys(fragment: str) -> tuple[str, ...]:
    """The keys of a JSON pointer, unescaped."""
    return tuple(key.replace("~1", "/").replace("~0", "~") for key in fragment.split("/")[1:])
