"""Records in Kafka's three formats, which Produce and Fetch carry as opaque bytes.

``read`` decodes all three formats. ``build_batch`` builds magic 2 (since Kafka 0.11), ``build_message_set`` magic 0 and
1.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from kwire.errors import Truncated
from kwire.records.batch import MAGIC_AT, NATIVE, Batch, build_batch, read_batch
from kwire.records.message_set import Message, build_message_set, read_message
from kwire.records.record import Record

__all__ = ["Batch", "Message", "Record", "RecordSet", "build_batch", "build_message_set", "read"]


class RecordSet(Protocol):
    """The common interface of a record batch (Batch, magic 2) and of a message of magic 0 or 1 (Message).

    The method ``records`` decompresses the data. For a compressed Message, ``base_offset`` and ``count`` decompress the
    data too. All other attributes are available without decompression.

    Attributes:
        data: encoded bytes.
        magic: format of the records: 0, 1 or 2.
        codec: compression codec, a key of ``compression.NAMES``.
        base_offset: offset of the first record.
        last_offset: offset of the last record.
        count: number of records.
        log_append_time: True if ``max_timestamp`` is the timestamp of all records.
        max_timestamp: largest timestamp, in milliseconds since 1970; -1 if magic is 0.
        position: byte offset of the batch or message in the data that was read.
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
    """Yield the batches and messages in the records field of a Produce request or Fetch response. The magics may
    differ.

    A truncated last batch or message is omitted, because brokers limit Fetch responses by a size in bytes.

    Args:
        data: content of the field; None for null.

    Raises: DecodeError for an invalid header, after the batches and messages before it were yielded.
    """
    if data is None:
        return iter(())
    content = data if isinstance(data, bytes) else bytes(data)
    if NATIVE is None:
        return _read(content, 0)
    batches: Iterator[RecordSet] = NATIVE.read(content, _read)
    return batches


def _read(data: bytes, at: int) -> Iterator[RecordSet]:
    """Yield the batches and messages from offset ``at`` of the data on."""
    while len(data) - at > MAGIC_AT:
        try:
            record_set: RecordSet = read_message(data, at) if data[at + MAGIC_AT] < 2 else read_batch(data, at)
        except Truncated:
            return
        yield record_set
        at += len(record_set.data)
