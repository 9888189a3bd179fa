"""The built files of the live page, which ``make page`` writes to ``mockbroker/page/built``."""

from __future__ import annotations

import hashlib
from importlib.resources import files
from importlib.resources.abc import Traversable

from kwire.lazy_dataclass import dataclass

FOLDER: Traversable = files("mockbroker").joinpath("page", "built")
MEDIA = {  # content types by extension
    "js": "text/javascript",
    "css": "text/css",
    "svg": "image/svg+xml",
    "txt": "text/plain",
    "woff2": "font/woff2",
}


@dataclass(frozen=True, slots=True)
class PageFile:
    """A file of the live page.

    Attributes:
        data: the content.
        media: content type.
        etag: the entity tag, which changes with the content.
    """

    data: bytes
    media: str
    etag: str


def page_file(name: str) -> PageFile | None:
    """Return a file of the live page; None if there is no file with this name."""
    media = MEDIA.get(name.rpartition(".")[2])
    if media is None or not FOLDER.is_dir() or all(each.name != name for each in FOLDER.iterdir()):
        return None
    data = FOLDER.joinpath(name).read_bytes()
    return PageFile(data, media, f'"{hashlib.sha256(data).hexdigest()[:32]}"')
