"""Explanation of records fields: batches of magic 2 with their records, and messages of magic 0 and 1.

Decompressed data has a separate Explanation, because it is not part of the frame. The size of decompressed data and the
number of leaves are limited. Batches after an invalid batch are still decoded. Source: DefaultRecordBatch,
DefaultRecord and LegacyRecord in org.apache.kafka.common.record.
"""

from __future__ import annotations

import struct
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from zlib import crc32

from google_crc32c import value as crc32c

from kwire.counted import counted
from kwire.errors import DecodeError, LimitError, Truncated
from kwire.explain.meanings import time_text
from kwire.explain.pieces import COUNT, LENGTH, Explanation, Piece, TreeBuilder
from kwire.records.compression import NAMES, decompress
from kwire.records.control import ControlType
from kwire.records.record import int64

UNPACKED_BYTES = 16 * 1024 * 1024  # maximum decompressed bytes per frame, all batches together
UNPACKED_LEAVES = 50_000  # maximum leaves shown of decompressed data per frame
TOO_MANY_LEAVES = f"the decompressed data of the frame has more than {UNPACKED_LEAVES} leaves: the rest is not shown"
FRAME_LEAVES = 500_000  # maximum leaves shown of the frame itself, some 140 MB of memory
TOO_MANY_FRAME_LEAVES = f"the frame has more than {FRAME_LEAVES} leaves: the rest is not shown"
PREFIX = 12  # offset and length, which the length does not count
MAGIC_AT = 16
BATCH_CRC_FROM = 21
COUNT_AT = 57
VARINTS: Mapping[str, int] = {"varint": 5, "varlong": 10}  # wire forms, with the maximum size in bytes
HEADER_SIZE = 61
MESSAGE_CRC_FROM = 16
CODEC_MASK, LOG_APPEND_TIME, TRANSACTIONAL, CONTROL = 0x07, 0x08, 0x10, 0x20

Form = Sequence[tuple[str, str]]  # names and wire forms, in wire order
INTEGERS: Mapping[str, struct.Struct] = {
    wire: struct.Struct(f">{code}")
    for wire, code in {"int8": "b", "int16": "h", "int32": "i", "uint32": "I", "int64": "q"}.items()
}
BATCH: Form = (
    ("base_offset", "int64"),
    ("batch_length", "int32"),
    ("partition_leader_epoch", "int32"),
    ("magic", "int8"),
    ("crc", "uint32"),
    ("attributes", "int16"),
    ("last_offset_delta", "int32"),
    ("base_timestamp", "int64"),
    ("max_timestamp", "int64"),
    ("producer_id", "int64"),
    ("producer_epoch", "int16"),
    ("base_sequence", "int32"),
)  # followed by the record count at COUNT_AT
MESSAGE: Form = (
    ("offset", "int64"),
    ("message_size", "int32"),
    ("crc", "uint32"),
    ("magic", "int8"),
    ("attributes", "int8"),
)
TIMED_MESSAGE: Form = (*MESSAGE, ("timestamp", "int64"))


class Allowance:
    """The amount of data that the explanation of a frame may still contain. Each use reduces it.

    Attributes:
        bytes: number of bytes that may still be decompressed.
        leaves: number of leaves that may still be added for decompressed data.
        frame_leaves: number of leaves that may still be added, besides those of decompressed data.
    """

    def __init__(self) -> None:
        self.bytes = UNPACKED_BYTES
        self.leaves = UNPACKED_LEAVES
        self.frame_leaves = FRAME_LEAVES

    def is_exhausted(self, unpacked: bool) -> bool:
        """Return whether no further leaves may be added. ``unpacked``: True for leaves of decompressed data."""
        return not (self.leaves if unpacked else self.frame_leaves)

    def count_leaf(self, at: int, unpacked: bool = False) -> None:
        """Count a leaf that is to be added.

        Args:
            at: offset of the leaf, for the error.
            unpacked: True for a leaf of decompressed data.

        Raises: LimitError if no further leaves may be added.
        """
        if self.is_exhausted(unpacked):
            raise LimitError(TOO_MANY_LEAVES if unpacked else TOO_MANY_FRAME_LEAVES, offset=at)
        if unpacked:
            self.leaves -= 1
        else:
            self.frame_leaves -= 1


def explain_records(data: bytes, base: int, prefix: str, allowance: Allowance) -> tuple[str, tuple[Piece, ...]]:
    """Return a one-line summary of a records field, and the pieces of its batches or messages.

    Invalid bytes never raise an exception; they become UNREAD pieces.

    Args:
        data: bytes of the field.
        base: offset of the field in the frame.
        prefix: path of the field.
        allowance: remaining allowance for decompressed data in the frame.
    """
    reader = Reader(data, TreeBuilder(base, prefix), allowance)
    return reader.batches(""), reader.tree.done()


class Reader:
    """A decoder of record batches and messages that adds a Piece for each field to its attribute ``tree``.

    It decodes ``data`` from the current position to its attribute ``end``.

    Args:
        data: bytes to decode.
        tree: builder of the tree to which the pieces are added.
        allowance: remaining allowance for decompressed data in the frame.
        unpacked: True if the data is decompressed, so that its leaves count against the allowance.
    """

    def __init__(self, data: bytes, tree: TreeBuilder, allowance: Allowance, unpacked: bool = False) -> None:
        self.data = data
        self.tree = tree
        self.allowance = allowance
        self.unpacked = unpacked
        self.at = 0
        self.end = len(data)

    def _rest(self, path: str) -> Reader:
        """Return a second Reader, with a tree of its own, for the bytes from the current position to ``end``.

        ``path``: path of the root of the second tree.
        """
        tree = TreeBuilder(self.tree.base, self.tree.prefix, start=self.at, path=f"{self.tree.prefix}{path}")
        inner = Reader(self.data, tree, self.allowance, self.unpacked)
        inner.at, inner.end = self.at, self.end
        return inner

    def batches(self, path: str) -> str:
        """Add the pieces of all batches or messages up to ``end``; return the number of batches or messages, such as
        ``2 batches``.

        The bytes of an invalid batch or message become an UNREAD piece. ``path``: path of the records field.
        """
        index, what, plural = 0, "batch", "es"
        while self.at < self.end:
            here = f"{path}[{index}]"
            inner = self._rest(here)
            try:
                if self.end - self.at > MAGIC_AT and self.data[self.at + MAGIC_AT] < 2:
                    what, plural = "message", "s"
                    inner.message(here)
                else:
                    inner.batch(here)
                self.tree.add(inner.tree.done())
            except DecodeError as error:
                if self.allowance.is_exhausted(self.unpacked):
                    inner.end = self.end
                self.tree.add(inner.tree.give_up(error, inner.end))
            self.at = inner.end
            index += 1
        return f"{index} {what}{plural * (index != 1)}"

    def batch(self, path: str) -> None:
        """Add the pieces of the batch at the current position, and set ``end`` to the end of the batch.

        Raises: DecodeError if the batch is invalid.
        """
        start = self.at
        fields = self._fields(BATCH, HEADER_SIZE, "a record batch")
        if fields["magic"] != 2:
            raise DecodeError(f"magic is {fields['magic']}, expected 0, 1 or 2", offset=start)
        size = self._size(start, fields["batch_length"], HEADER_SIZE, "a batch")
        right = crc32c(self.data[start + BATCH_CRC_FROM : self.end]) == fields["crc"]
        attributes = _attributes(fields["attributes"])
        (count,) = INTEGERS["int32"].unpack_from(self.data, start + COUNT_AT)
        self.tree.open(start, path, "record batch", note=_batch_note(fields, count, size, attributes, right))
        notes = {
            "crc": "right" if right else "wrong",
            "attributes": attributes,
            "base_timestamp": time_text(fields["base_timestamp"]),
            "max_timestamp": time_text(fields["max_timestamp"]),
        }
        self._leaves(BATCH, path, notes)
        self.tree.open(self.at, f"{path}.records", "array of record", count)
        self._integer(f"{path}.records.{COUNT}", "int32")
        if fields["attributes"] & CODEC_MASK:
            self._packed(f"{path}.records", self.end, fields, lambda inner: inner.records("", fields, count))
        else:
            self.records(f"{path}.records", fields, count)
        self.tree.close(self.end)
        self.tree.close(self.end)

    def records(self, path: str, batch: Mapping[str, int], count: int) -> None:
        """Add the pieces of ``count`` records. The records must take all remaining bytes.

        Args:
            path: path of the array of records.
            batch: decoded fields of the batch header, by name.
            count: number of records in the batch header.

        Raises: DecodeError if a record is invalid, or bytes remain after the last record.
        """
        for index in range(count):
            self._record(f"{path}[{index}]", batch)
        if self.at < self.end:
            raise DecodeError(f"{self.end - self.at} trailing bytes after the last record", offset=self.at)

    def _record(self, path: str, batch: Mapping[str, int]) -> None:
        start = self.at
        self.tree.open(start, path, "record")
        size = self._varint(f"{path}.length", "varint")
        end = self.at + size
        if size < 0 or end > self.end:
            raise Truncated(f"a record has {size} bytes, but only {self.end - self.at} remain", offset=start)
        self._integer(f"{path}.attributes", "int8")
        time = int64(batch["base_timestamp"] + self._varint(f"{path}.timestamp_delta", "varlong"))
        offset = int64(batch["base_offset"] + self._varint(f"{path}.offset_delta", "varint"))
        key = self._bytes(f"{path}.key", self._varint_at)
        self._bytes(f"{path}.value", self._varint_at)
        self._headers(f"{path}.headers", end)
        if self.at != end:
            raise DecodeError(
                f"the length of the record is {size}, but its fields take {size + self.at - end} bytes", offset=start
            )
        time = batch["max_timestamp"] if batch["attributes"] & LOG_APPEND_TIME else time
        kind = _control_type(key) if batch["attributes"] & CONTROL else ""
        self.tree.close(end, ", ".join(filter(None, (f"offset {offset}", time_text(time), kind))))

    def _headers(self, path: str, end: int) -> None:
        start = self.at
        count, at = self._varint_at()
        if not 0 <= count <= end - at:
            raise LimitError(f"{count} headers do not fit into {end - at} bytes", offset=start)
        self.tree.open(start, path, "array of header", count)
        self._leaf(at, f"{path}.{COUNT}", "varint", count)
        for index in range(count):
            if self._varint_at()[0] < 0:
                raise DecodeError("the key of a header is null, but Kafka requires a string", offset=self.at)
            self.tree.open(self.at, f"{path}[{index}]", "header")
            self._bytes(f"{path}[{index}].key", self._varint_at)
            self._bytes(f"{path}[{index}].value", self._varint_at)
            self.tree.close(self.at)
        self.tree.close(self.at)

    def message(self, path: str) -> None:
        """Add the pieces of the message of magic 0 or 1 at the current position, and set ``end`` to the end of the
        message.

        Raises: DecodeError if the message is invalid.
        """
        start = self.at
        form = TIMED_MESSAGE if self.data[start + MAGIC_AT] == 1 else MESSAGE
        least = sum(INTEGERS[wire].size for _, wire in form) + 8  # the lengths of key and value
        fields = self._fields(form, least, "a message")
        size = self._size(start, fields["message_size"], least, "a message")
        right = crc32(self.data[start + MESSAGE_CRC_FROM : self.end]) == fields["crc"]
        attributes = _attributes(fields["attributes"] & (CODEC_MASK | LOG_APPEND_TIME))
        facts = [f"offset {fields['offset']}", f"magic {fields['magic']}", attributes, f"{size} bytes"]
        facts += ["wrong checksum"] * (not right)
        time = time_text(fields.get("timestamp", -1))
        self.tree.open(start, path, "message", note=", ".join(facts))
        self._leaves(form, path, {"crc": "right" if right else "wrong", "attributes": attributes, "timestamp": time})
        self._bytes(f"{path}.key", self._int32_at)
        if fields["attributes"] & CODEC_MASK:
            self.tree.open(self.at, f"{path}.value", "bytes")
            size, at = self._length(f"{path}.value", self._int32_at)
            end = at + max(size, 0)
            self._integer(f"{path}.value.{LENGTH}", "int32")
            self._packed(f"{path}.value", end, fields, lambda inner: inner.batches(""))
            self.tree.close(end)
        else:
            self._bytes(f"{path}.value", self._int32_at)
        if self.at < self.end:
            raise DecodeError(f"{self.end - self.at} trailing bytes after the value", offset=self.at)
        self.tree.close(self.end)

    def _fields(self, form: Form, size: int, what: str) -> dict[str, int]:
        """Return the values of the fixed-size fields at the current position by name, without adding pieces.

        Args:
            form: names and formats of the fields.
            size: total size of the fields, in bytes.
            what: noun phrase for the error, such as "a batch".

        Raises: Truncated if the bytes end too early.
        """
        if (left := self.end - self.at) < size:
            raise Truncated(f"{what} has at least {size} bytes, but only {left} remain", offset=self.at)
        values: dict[str, int] = {}
        at = self.at
        for name, wire in form:
            (values[name],) = INTEGERS[wire].unpack_from(self.data, at)
            at += INTEGERS[wire].size
        return values

    def _size(self, start: int, length: int, least: int, what: str) -> int:
        """Return the size of a batch or message in bytes, and set ``end`` to the end of the batch or message.

        Raises: DecodeError if the size is below the minimum, or exceeds the remaining bytes.

        Args:
            start: offset of the batch or message.
            length: value of its length field.
            least: minimum size in bytes.
            what: noun phrase for the error, such as "a batch".
        """
        size = PREFIX + length
        if size < least:
            raise DecodeError(f"{what} has {size} bytes, below the minimum of {least}", offset=start)
        if start + size > self.end:
            raise Truncated(f"{what} has {size} bytes, but only {self.end - start} remain", offset=start)
        self.end = start + size
        return size

    def _leaves(self, form: Form, path: str, notes: Mapping[str, str]) -> None:
        for name, wire in form:
            self._integer(f"{path}.{name}", wire, notes.get(name, ""))

    def _leaf(self, end: int, path: str, type_: str, value: Any, **more: Any) -> None:
        """Add a leaf for the bytes from the current position to ``end``.

        Args:
            end: offset of the byte after the leaf.
            path: path of the field.
            type_: wire type of the field.
            value: value in the JSON form.
            more: further attributes of the Piece.

        Raises: LimitError if ``allowance`` permits no further leaves.
        """
        self.allowance.count_leaf(self.at, self.unpacked)
        self.tree.leaf(self.at, end, path, type_, value, **more)
        self.at = end

    def _integer(self, path: str, wire: str, note: str = "") -> None:
        value, end = self._integer_at(wire)
        self._leaf(end, path, wire, value, note=note)

    def _varint(self, path: str, wire: str) -> int:
        value, end = self._varint_at(wire)
        self._leaf(end, path, wire, value)
        return value

    def _bytes(self, path: str, length_at: Callable[[], tuple[int, int]]) -> bytes:
        """Add a leaf for a length and the bytes after it, and return the bytes. A negative length means null.

        Raises: Truncated if the bytes end too early.

        Args:
            path: path of the field.
            length_at: function that decodes the length at the current position, and returns the length and the offset
                after it.
        """
        size, at = self._length(path, length_at)
        content = self.data[at : at + max(size, 0)]
        value = None if size < 0 else b64encode(content).decode()
        self._leaf(at + len(content), path, "nullable_bytes", value, head=at - self.at)
        return content

    def _length(self, path: str, length_at: Callable[[], tuple[int, int]]) -> tuple[int, int]:
        """Return the length at the current position, and the offset after it. A negative length means null.

        Raises: Truncated if fewer bytes than the length remain.

        Args:
            path: path of the field.
            length_at: function that decodes the length at the current position, and returns the length and the offset
                after it.
        """
        size, at = length_at()
        if size > self.end - at:
            name = path.rpartition(".")[2]
            raise Truncated(f"{name} has {size} bytes, but only {self.end - at} remain", offset=self.at)
        return size, at

    def _integer_at(self, wire: str) -> tuple[int, int]:
        form = INTEGERS[wire]
        if (left := self.end - self.at) < form.size:
            raise Truncated(f"expected {form.size} bytes of {wire}, found {left}", offset=self.at)
        (value,) = form.unpack_from(self.data, self.at)
        return value, self.at + form.size

    def _int32_at(self) -> tuple[int, int]:
        return self._integer_at("int32")

    def _varint_at(self, wire: str = "varint") -> tuple[int, int]:
        """Return the zigzag varint at the current position, and the offset after the varint. As in Java, bits that do
        not fit are dropped.

        ``wire``: wire form, a key of VARINTS.

        Raises: Truncated if the bytes end too early; LimitError if the varint is too long.
        """
        value, longest = 0, VARINTS[wire]
        for index in range(longest):
            if self.at + index >= self.end:
                raise Truncated("the data ends inside a varint", offset=self.at)
            byte = self.data[self.at + index]
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                value &= 0xFFFF_FFFF if wire == "varint" else 0xFFFF_FFFF_FFFF_FFFF
                return (value >> 1) ^ -(value & 1), self.at + index + 1
        raise LimitError(f"a varint is longer than the limit of {longest} bytes", offset=self.at)

    def _packed(self, path: str, end: int, fields: Mapping[str, int], read_content: Callable[[Reader], object]) -> None:
        """Add a leaf for the compressed bytes from the current position to ``end``; add nothing if there are none.

        The leaf contains an explanation of the decompressed content. If the bytes cannot be decompressed, it contains
        the error.

        Args:
            path: path of the compressed array of records, or of the compressed value of a message.
            end: offset of the byte after the compressed bytes.
            fields: decoded fields of the batch or message by name, with the codec in ``attributes``.
            read_content: function that adds the pieces of the decompressed data to the Reader that it gets.
        """
        packed = self.data[self.at : end]
        if not packed:
            return
        codec = fields["attributes"] & CODEC_MASK
        inner, error = self._unpack(path, codec, packed, read_content, old_lz4=fields["magic"] == 0)
        note = f"{len(packed)} bytes" if inner is None else f"{len(packed)} bytes, {len(inner.frame)} unpacked"
        name, value = NAMES.get(codec, f"codec {codec}"), b64encode(packed).decode()
        self._leaf(end, f"{path}.{name}", "compressed", value, note=note, unpacked=inner, error=error)

    def _unpack(
        self, path: str, codec: int, packed: bytes, read_content: Callable[[Reader], object], *, old_lz4: bool
    ) -> tuple[Explanation | None, str]:
        """Decompress data, and explain the decompressed content.

        Args:
            path: path of the data.
            codec: compression codec.
            packed: the compressed data.
            read_content: function that adds the pieces of the decompressed data to the Reader that it gets.
            old_lz4: True for the lz4 frames in messages of magic 0, whose header checksum is wrong.

        Returns: the explanation and ""; if the data cannot be decompressed, None and the reason.
        """
        if self.unpacked:
            return None, "compressed data inside decompressed data is not shown"
        if not self.allowance.leaves:
            return None, TOO_MANY_LEAVES
        try:
            body = decompress(codec, packed, limit=self.allowance.bytes, old_lz4=old_lz4)
        except DecodeError as error:
            self.allowance.bytes //= 2  # halved, so that a frame of many decompression bombs stays within limits
            return None, error.reason
        self.allowance.bytes -= len(body)
        name = f"{self.tree.prefix}{path}, unpacked"
        inner = Reader(body, TreeBuilder(0, f"{self.tree.prefix}{path}"), self.allowance, unpacked=True)
        try:
            read_content(inner)
        except DecodeError as error:
            return Explanation(name, body, inner.tree.give_up(error, len(body)), error), ""
        return Explanation(name, body, inner.tree.done()), ""


def _attributes(bits: int) -> str:
    """Return the attributes of a batch or message as text, such as "gzip, transactional"."""
    codec = bits & CODEC_MASK
    flags = {LOG_APPEND_TIME: "log append time", TRANSACTIONAL: "transactional", CONTROL: "control"}
    return ", ".join([NAMES.get(codec, f"codec {codec}"), *(name for bit, name in flags.items() if bits & bit)])


def _batch_note(fields: Mapping[str, int], count: int, size: int, attributes: str, right: bool) -> str:
    """Return a one-line summary of a batch: records, offsets, attributes, size, producer, and whether the CRC is wrong.

    Args:
        fields: decoded fields of the batch header, by name.
        count: number of records.
        size: size of the batch in bytes.
        attributes: attributes of the batch as text.
        right: True if the CRC matches the data.
    """
    first, last = fields["base_offset"], fields["base_offset"] + fields["last_offset_delta"]
    facts = [counted(count, "record")]
    facts += [f"offset {first}" if first == last else f"offsets {first}-{last}", attributes, f"{size} bytes"]
    if fields["producer_id"] >= 0:
        producer = fields["producer_id"], fields["producer_epoch"], fields["base_sequence"]
        facts.append("producer {} epoch {} sequence {}".format(*producer))
    return ", ".join(facts + ["wrong checksum"] * (not right))


def _control_type(key: bytes) -> str:
    """Return the name of a control record's type, such as "COMMIT"; "" for an unknown type.

    ``key``: encoded key, which contains version and type.
    """
    if len(key) < 4:
        return ""
    kind = int.from_bytes(key[2:4], "big", signed=True)
    return ControlType(kind).name if kind in tuple(ControlType) else ""
