"""Replacement of keys, values and headers in record batches.

Offsets, timestamps and the compression are not changed.
"""

from __future__ import annotations

import struct
from collections import Counter

from google_crc32c import value as crc32c

from kwire.anonymize.pseudonyms import Pseudonyms
from kwire.errors import WireError
from kwire.records import RecordSet, build_message_set, compression, read
from kwire.records.batch import CRC_AT, CRC_FROM, HEADER, PREFIX, Batch
from kwire.records.message_set import Message
from kwire.records.record import Record, read_records, write_records

UNREADABLE = "record batches that could not be decoded"
CUT = "record batches that were incomplete"
MARKER_KEY = 4  # bytes of the key of a control record: its version and type
END_TXN = (0, 1)  # types of control records without names: abort and commit


class Batches:
    """A converter that replaces keys, values and headers in record batches by pseudonyms.

    Args:
        names: pseudonyms of text and bytes.
        dropped: counter of the batches that are left out, by reason. The converter increases the counter.
    """

    def __init__(self, names: Pseudonyms, dropped: Counter[str]) -> None:
        self._names = names
        self._dropped = dropped

    def replace(self, data: bytes) -> bytes:
        """Return the content of a records field with replaced keys, values and headers.

        A batch that cannot be decoded or is incomplete is left out, and so are all batches after it. ``dropped`` then
        increases by 1.
        """
        batches: list[bytes] = []
        end = 0
        try:
            for batch in read(data):
                end = batch.position + len(batch.data)
                batches.append(self._batch(batch))
            self._dropped[CUT] += end < len(data)
        except (WireError, ValueError):
            self._dropped[UNREADABLE] += 1
        return b"".join(batches)

    def _batch(self, batch: RecordSet) -> bytes:
        if isinstance(batch, Batch):
            return self._magic_2(batch)
        assert isinstance(batch, Message)
        return self._message_set(batch)

    def _magic_2(self, batch: Batch) -> bytes:
        body = batch.data[HEADER.size :]
        if batch.codec != compression.NONE:
            body = compression.decompress(batch.codec, body)
        records: list[Record] = []
        for some in read_records(body, 0, batch.count, batch.base_offset, batch.base_timestamp, None, Record):
            records += some
        for record in records:
            self._record(record, is_control=batch.control)
        deltas = [record.offset - batch.base_offset for record in records]
        body = write_records(records, deltas, batch.base_timestamp)
        if batch.codec != compression.NONE:
            body = compression.compress(batch.codec, body)
        data = bytearray(batch.data[: HEADER.size] + body)
        struct.pack_into(">i", data, PREFIX - 4, len(data) - PREFIX)
        struct.pack_into(">I", data, CRC_AT, crc32c(bytes(data[CRC_FROM:])))
        return bytes(data)

    def _record(self, record: Record, *, is_control: bool) -> None:
        key = record.key
        if is_control and key is not None and len(key) == MARKER_KEY:
            if int.from_bytes(key[2:], "big") in END_TXN and len(record.value or b"") <= struct.calcsize(">hi"):
                return
        elif key is not None:
            record.key = self._names.data(key)
        if record.value is not None:
            record.value = self._names.data(record.value)
        record.headers = tuple(
            (self._names.text(name), None if content is None else self._names.data(content))
            for name, content in record.headers
        )

    def _message_set(self, message: Message) -> bytes:
        records = list(message.records(verify_crc=False))
        for record in records:
            self._record(record, is_control=False)
        return build_message_set(
            records,
            magic=message.magic,
            codec=message.codec,
            keep_offsets=True,
            log_append_time=message.timestamp if message.log_append_time else None,
        )
