"""The strings, bytes and UUIDs of decoded messages, also inside bytes fields and record batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple
from uuid import UUID

from kwire.anonymize.fields import HARMLESS
from kwire.blobs import BLOBS, decode_stored
from kwire.blobs.fields import INSIDE
from kwire.errors import DecodeError
from kwire.records import read
from kwire.schema import schema_of


class Content(NamedTuple):
    """A string, bytes or UUID.

    Attributes:
        field: qualified name of its field; "records.key" and the like for records.
        value: the content; None for a field of bytes with a message or records inside, whose contents follow.
    """

    field: str
    value: str | bytes | UUID | None

    @property
    def is_harmless(self) -> bool:
        return self.field in HARMLESS or self.field.rpartition(".")[2] in HARMLESS

    @property
    def raw(self) -> bytes:
        match self.value:
            case None:
                return b""
            case str():
                return self.value.encode("utf-8", "surrogateescape")
            case UUID():
                return self.value.bytes
            case _:
                return self.value


def contents(message: Any) -> Iterator[Content]:
    """Yield the contents of a message, in the order of its fields. Independent of the code that replaces contents."""
    for name, field in schema_of(type(message)).fields.items():
        value = getattr(message, name)
        path = f"{type(message).__qualname__}.{name}"
        values = value if isinstance(value, list) else [value]
        for each in values:
            if isinstance(each, bytes) and field.kind == "records":
                yield from _records(each)
            elif isinstance(each, bytes) and path in INSIDE and each:
                yield from _inside(path, each)
            elif isinstance(each, (str, bytes, UUID)):
                yield Content(path, each)
            elif hasattr(type(each), "__kafka__"):
                yield from contents(each)
    for tag, content in (getattr(message, "unknown_tags", None) or {}).items():
        yield Content(f"tag {tag}", content)


def _records(data: bytes) -> Iterator[Content]:
    for batch in read(data):
        assert batch.crc_is_right()
        for record in batch.records():
            if not getattr(batch, "control", False):
                yield Content("records.key", record.key)
                yield Content("records.value", record.value)
            for name, content in record.headers:
                yield Content("records.header", name)
                yield Content("records.header", content)


def _inside(path: str, data: bytes) -> Iterator[Content]:
    try:
        yield from contents(decode_stored(BLOBS[INSIDE[path]], data)[0])
    except DecodeError:
        yield Content(path, data)
