"""The files of the console, read once.

The URL of every file except the page contains a digest of all files. So browsers cache files forever, and no
page mixes the files of two versions.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable

MEDIA_TYPES: Mapping[str, str] = {
    "css": "text/css",
    "html": "text/html",
    "js": "text/javascript",
    "svg": "image/svg+xml",
    "txt": "text/plain",
}
"""By the ends of names: a file of another kind is not served."""

PAGE = "index.html"
DIGEST_MARK = b"DIGEST"
"""What stands in the page for the digest."""


@dataclass(frozen=True, slots=True)
class Asset:
    """A file as it is sent."""

    content: bytes
    media_type: str


@dataclass(frozen=True, slots=True)
class Assets:
    """The page, and the other files by their paths."""

    digest: str
    page: Asset
    files: Mapping[str, Asset]


@lru_cache(maxsize=1)
def read_assets() -> Assets:
    """The files of the package."""
    assets = dict(sorted(_files_of(files("gateway.console") / "assets")))
    sha256 = hashlib.sha256()
    for path, asset in assets.items():
        sha256.update(b"%d %s %d " % (len(path), path.encode(), len(asset.content)))
        sha256.update(asset.content)
    digest = sha256.hexdigest()[:16]
    page = assets.pop(PAGE)
    content = page.content.replace(DIGEST_MARK, digest.encode())
    return Assets(digest, Asset(content, page.media_type), assets)


def _files_of(folder: Traversable, prefix: str = "") -> list[tuple[str, Asset]]:
    assets = []
    for entry in folder.iterdir():
        path = prefix + entry.name
        if entry.is_dir():
            assets += _files_of(entry, f"{path}/")
        elif media_type := MEDIA_TYPES.get(entry.name.rpartition(".")[2]):
            assets.append((path, Asset(entry.read_bytes(), media_type)))
    return assets
