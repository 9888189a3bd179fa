"""What is kept of a group besides its offsets: one value per key, as compaction leaves them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from kwire.blobs import encode_record

Record: TypeAlias = tuple[object, object, int]  # key, value, version of the value
Image: TypeAlias = dict[bytes, bytes]
Change: TypeAlias = tuple[bytes, bytes | None]  # None: a tombstone


def encoded(key: object, value: object, version: int) -> tuple[bytes, bytes]:
    """Return key and value as they are stored."""
    written, data = encode_record(key, value, version)
    assert data is not None
    return written, data


def image_of(records: Iterable[Record]) -> Image:
    """Return records as compaction leaves them."""
    return dict(encoded(*record) for record in records)


def tombstones(keys: Iterable[bytes]) -> list[Change]:
    """Return the changes that take these keys back."""
    return [(key, None) for key in keys]


def differing(image: Image, changes: Iterable[Change]) -> Iterator[Change]:
    """Return the changes that say something new; the image has them from now on."""
    for key, value in changes:
        if image.get(key) == value:
            continue
        if value is None:
            del image[key]
        else:
            image[key] = value
        yield key, value
