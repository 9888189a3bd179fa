"""Messages to bytes and back, without headers.

Versions stop here: above, one object stands for all versions of a message.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol, TypeVar

from kwire.engines import reference
from kwire.errors import DecodeError
from kwire.primitives import MAX_ELEMENTS
from kwire.schema import schema_of

M = TypeVar("M")
Engine = Literal["reference"]


class EngineModule(Protocol):
    """What a file in ``engines/`` offers."""

    def decode(self, message: type[M], data: bytes, offset: int, version: int, elements: int) -> tuple[M, int]: ...

    def encode(self, value: object, version: int) -> bytes: ...


ENGINES: Mapping[Engine, EngineModule] = {"reference": reference}


def decode(message: type[M], data: bytes, version: int, *, engine: Engine = "reference", strict: bool = False) -> M:
    """The message in ``data``. Bytes behind it are ignored, as Kafka does, unless ``strict``.

    Raises: DecodeError with path and byte offset; SchemaError for a version that the message does not have.
    """
    value, end = decode_at(message, data, 0, version, engine=engine)
    if strict and end != len(data):
        raise trailing_error(message, version, end, len(data))
    return value


def decode_at(
    message: type[M],
    data: bytes,
    offset: int,
    version: int,
    *,
    engine: Engine = "reference",
    elements: int = MAX_ELEMENTS,
) -> tuple[M, int]:
    """The message that begins at ``offset`` of ``data``, and the offset behind it. Offsets in errors count from 0.

    ``elements``: how many the arrays of the message may have together.
    """
    return ENGINES[engine].decode(message, data, offset, version, elements)


def encode(value: object, version: int, *, engine: Engine = "reference") -> bytes:
    """The bytes of ``value`` in this version.

    Raises: EncodeError if the version cannot carry the value; SchemaError if there is no such version.
    """
    return ENGINES[engine].encode(value, version)


def struct(message: type, version: int) -> Any:
    """The ``construct.Construct`` of one message version; it parses to, and builds from, the message class."""
    return reference.struct(message, version)


def trailing_error(message: type, version: int, end: int, size: int) -> DecodeError:
    """What strict decoding says of bytes behind the body."""
    return DecodeError(
        f"{size - end} bytes behind the message", offset=end, message=schema_of(message).name, version=version
    )
