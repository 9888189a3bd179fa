"""Data messages by Kafka's name: what travels as bytes inside other messages, under a version of its own."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import TypeVar

from kwire import codec
from kwire.blobs.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kwire.errors import Truncated
from kwire.schema import schema_of

M = TypeVar("M")

BLOBS: Mapping[str, type] = {blob.__name__: blob for blob in (ConsumerProtocolSubscription, ConsumerProtocolAssignment)}


def decode_stored(blob: type[M], data: bytes) -> tuple[M, int]:
    """A blob as it is stored, behind the int16 of its version, and that version.

    A version newer than we know is read as the newest that we know: fields are only ever added at the end.
    Raises: DecodeError. Source: Kafka's ConsumerProtocol.deserializeSubscription.
    """
    if len(data) < 2:
        raise Truncated(f"expected 2 bytes of version, found {len(data)}", message=schema_of(blob).name)
    (written,) = struct.unpack_from(">h", data)
    versions = schema_of(blob).versions
    assert versions is not None
    assert versions.last is not None
    version = min(written, versions.last)
    value, _ = codec.decode_at(blob, data, 2, version)
    return value, written


def encode_stored(value: object, version: int) -> bytes:
    """A blob behind the int16 of its version. Raises: EncodeError, SchemaError."""
    return struct.pack(">h", version) + codec.encode(value, version)
