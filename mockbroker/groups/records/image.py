"""Images of groups.

An image contains the encoded records of a group by key, with one value per key as in a compacted log.

An image does not contain the records of offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

from kwire.blobs import encode_record, encode_stored

Record: TypeAlias = tuple[object, object, int]  # decoded key, decoded value, version of the value
Image: TypeAlias = dict[bytes, bytes]
Change: TypeAlias = tuple[bytes, bytes | None]  # encoded key and value; None for a tombstone


def encode(key: object, value: object, version: int) -> tuple[bytes, bytes]:
    """Return the encoded key and the encoded value of a record.

    Args:
        key: The key.
        value: The value.
        version: Schema version in which the value is encoded.
    """
    encoded_key, encoded_value = encode_record(key, value, version)
    assert encoded_value is not None
    return encoded_key, encoded_value


def image_of(records: Iterable[Record]) -> Image:
    """Return the image (encoded key -> encoded value) that consists of the given records.

    ``records``: key, value and value version of each record.
    """
    return dict(encode(*record) for record in records)


def tombstones(keys: Iterable[bytes]) -> list[Change]:
    """Return tombstones for encoded keys, as changes: pairs of key and None."""
    return [(key, None) for key in keys]


def encoded_keys(kinds: Iterable[type], **fields: str) -> list[bytes]:
    """Return one encoded key for each class in ``kinds``.

    All keys have the field values in ``fields``, such as the group id.
    """
    return [encode_stored(kind(**fields), 0) for kind in kinds]


def apply_changes(image: Image, changes: Iterable[Change]) -> Iterator[Change]:
    """Apply changes to an image, and yield each change whose value differs from the value in the image.

    Args:
        image: The image (encoded key -> encoded value), which is changed while the caller iterates.
        changes: Encoded key and encoded value; None as value deletes the key.
    """
    for key, value in changes:
        if image.get(key) == value:
            continue
        if value is None:
            del image[key]
        else:
            image[key] = value
        yield key, value
