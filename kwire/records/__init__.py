"""Records: what Produce and Fetch carry as opaque bytes, in each of the three forms that Kafka has had.

``read`` takes any of them. Building is a matter of one form: ``build_batch`` (magic 2, since Kafka 0.11) and
``build_message_set`` (magic 0 and 1).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from kwire.errors import Truncated
from kwire.records.batch import MAGIC_AT, Batch, build_batch, read_batch
from kwire.records.message_set import Message, build_message_set, read_message
from kwire.records.record import Record

__all__ = ["Batch", "Message", "Record", "RecordSet", "build_batch", "build_message_set", "read"]


class RecordSet(Protocol):
    """What a Batch and a Message have in common. ``data``: its bytes; ``codec``: one of ``compression.NAMES``.

    All but the records is known without decompressing anything, except the base offset and count of a compressed
    Message: these open it.
    """

    @property
    def data(self) -> bytes: ...
    @property
    def magic(self) -> int: ...
    @property
    def codec(self) -> int: ...
    @property
    def base_offset(self) -> int: ...
    @property
    def last_offset(self) -> int: ...
    @property
    def count(self) -> int: ...
    @property
    def log_append_time(self) -> bool: ...
    @property
    def max_timestamp(self) -> int: ...
    @property
    def position(self) -> int: ...
    def crc_is_right(self) -> bool: ...
    def records(self, *, verify_crc: bool = True, copy: bool = True, limit: int | None = None) -> Iterator[Record]: ...


def read(data: bytes | bytearray | memoryview | None) -> Iterator[RecordSet]:
    """The batches and messages of a records field, whatever their magic; the field may mix them.

    One cut short at the end is left out, as brokers cut answers to a size. Raises: DecodeError for a header that
    cannot be, after those before it.
    """
    at = 0
    data = data if data is None else bytes(data)
    while data is not None and len(data) - at > MAGIC_AT:
        try:
            found: RecordSet = read_message(data, at) if data[at + MAGIC_AT] < 2 else read_batch(data, at)
        except Truncated:
            return
        yield found
        at += len(found.data)
