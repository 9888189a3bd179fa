"""Data messages by Kafka's name: what travels as bytes inside other messages, under a version of its own.

STORED are those behind an int16 with their version; what is in BLOBS alone does not say its version.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import TypeVar

from kwire import codec
from kwire.blobs.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kwire.blobs.sticky import StickyUserData
from kwire.errors import Truncated, UnknownApi
from kwire.schema import schema_of

M = TypeVar("M")

STORED: Mapping[str, type] = {
    blob.__name__: blob for blob in (ConsumerProtocolSubscription, ConsumerProtocolAssignment)
}
BLOBS: Mapping[str, type] = {**STORED, StickyUserData.__name__: StickyUserData}

MAX_VERSION = 32_767  # a version is an int16


def stored_version(blob: type, data: bytes) -> int:
    """The version that stands before a stored blob. Raises: Truncated."""
    if len(data) < 2:
        raise Truncated(f"expected 2 bytes of version, found {len(data)}", message=schema_of(blob).name)
    (written,) = struct.unpack_from(">h", data)
    return int(written)


def readable_version(blob: type, written: int) -> int:
    """The version in which a blob of version ``written`` is read and written here.

    One newer than we know is taken as the newest that we know: fields are only ever added at the end.
    Raises: UnknownApi for one that no blob can have. Source: Kafka's ConsumerProtocol.deserializeSubscription.
    """
    schema = schema_of(blob)
    assert schema.versions is not None
    assert schema.versions.last is not None
    if not schema.versions.first <= written <= MAX_VERSION:
        raise UnknownApi(f"{schema.name} has versions {schema.versions}, not {written}", message=schema.name)
    return min(written, schema.versions.last)


def decode_stored(blob: type[M], data: bytes) -> tuple[M, int]:
    """A blob as it is stored, behind the int16 of its version, and that version. Raises: DecodeError."""
    written = stored_version(blob, data)
    value, _ = codec.decode_at(blob, data, 2, readable_version(blob, written))
    return value, written


def encode_stored(value: object, version: int) -> bytes:
    """A blob behind the int16 of its version. Raises: EncodeError, SchemaError."""
    return struct.pack(">h", version) + codec.encode(value, version)
