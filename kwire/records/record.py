"""Encoding and decoding of records of magic 2: the decompressed bytes after the header of a batch.

A fast path decodes usual records without checks of bounds. If an index is past the end of the data, or if a record does
not end at its declared length, the careful path decodes this record again. The careful path decodes varints of more
than two bytes, and raises the error for invalid data. With the native engine, the package kwire-native is used instead
of the fast path.

Source: org.apache.kafka.common.record.DefaultRecord.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, TypeVar, cast

from kwire.engines.varints import SHORT, varint
from kwire.errors import DecodeError, EncodeError, LimitError, Truncated
from kwire.lazy_dataclass import dataclass
from kwire.records.limits import MAX_HEADERS, RECORDS_AT_ONCE, SMALLEST_HEADER
from kwire.records.native import records_of, written_natively

Headers = Sequence[tuple[str, bytes | None]]

MAX_DELTA = 2**31 - 1  # maximum offset delta of a record
FEW_HEADERS = 63  # the largest count that takes one byte
MESSAGE = "RecordBatch"

_HEAD = struct.Struct("8B").unpack_from
_VARINTS = tuple(SHORT[::2])  # varints of the numbers below _SHORT, in zigzag form
_SHORT = len(_VARINTS)
# Value of each byte of a two-byte varint; a negative value gives a TypeError, a third byte an IndexError.
_LOW: tuple[Any, ...] = tuple((n & 0x7F) >> 1 if n % 2 == 0 else None for n in range(256))
_HIGH = tuple(n << 6 for n in range(128))
_ONLY = _LOW[:128]  # value of a varint of one byte; a negative value gives a TypeError, a second byte an IndexError
_SHIFTS = (0, 7, 14, 21, 28, 35, 42, 49)  # of the bytes of a varint that the fast path decodes
_INT_SHIFTS = _SHIFTS[:5]  # of a varint of 32 bits: Kafka refuses more than five bytes
_LARGE = 300  # values of at least this many bytes are cheaper without another copy
_NULL = b"\x01"  # zigzag varint of -1, the length of null
_INT = 5  # maximum bytes of a varint of 32 bits; Kafka refuses more
_LONG = 10


@dataclass(slots=True, kw_only=True, eq=False)
class Record:
    """A record: key, value, timestamp, headers and offset.

    Attributes:
        offset: offset in the partition.
        timestamp: milliseconds since 1970.
        key: key; None for null.
        value: value; None for null (a tombstone, in a compacted topic).
        headers: pairs of key and value, in order; a key may repeat.
    """

    offset: int = 0
    timestamp: int = 0
    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = ()

    def __eq__(self, other: object) -> bool:
        """Return whether all fields are equal. A list of headers equals a tuple with the same elements."""
        if not isinstance(other, Record):
            return NotImplemented
        return (
            self.offset == other.offset
            and self.timestamp == other.timestamp
            and self.key == other.key
            and self.value == other.value
            and tuple(self.headers) == tuple(other.headers)
        )

    __hash__ = None  # type: ignore[assignment]


R = TypeVar("R", bound=Record)


class _Unusual(Exception):
    """The exception that the fast path raises for a record that only the careful path can decode."""


CONTENTS = (bytes, bytearray, memoryview, type(None))  # types of a key or value, when it is written
WRONG_TYPE = (AttributeError, TypeError, ValueError)  # errors of a value of the wrong type when it is written
_UNUSUAL = (_Unusual, IndexError, TypeError, struct.error, UnicodeDecodeError)


def read_records(
    data: bytes,
    at: int,
    count: int,
    base_offset: int,
    base_timestamp: int,
    append_time: int | None,
    into: type[R],
    first: int = 0,
) -> Iterator[list[R]]:
    """Yield records, in lists, from offset ``at`` to the end of ``data``.

    The error of an invalid record is raised after the records before it were yielded. The path in the error begins with
    the record, not with the batch. The offset in the error counts from the start of ``data``.

    Args:
        data: decompressed records. If this is a memoryview, keys and values are memoryviews.
        at: offset in ``data`` of the first record to yield.
        count: number of records in the batch.
        base_offset: base offset of the batch.
        base_timestamp: base timestamp of the batch, in milliseconds since 1970.
        append_time: timestamp of all records, in milliseconds since 1970; None if each record has its own.
        into: Record, or a subclass whose additional fields are not set.
        first: number of the first record to yield, at most ``count``; the batch's first record has the number 0.

    Raises: DecodeError if a record or ``count`` is not valid.
    """
    remaining = count - first
    if remaining < 0:
        raise DecodeError(f"the record count {count} is negative", path="count", message=MESSAGE)
    copied = data.__class__ is bytes
    native = records_of(into) if copied else None  # type: ignore[arg-type]  # a class is hashable, its objects are not
    quick = max(base_offset, abs(base_timestamp)) < 2**62  # otherwise a sum may overflow an int64
    while remaining:
        some: list[R] = []
        try:
            if native is not None:
                most = min(remaining, RECORDS_AT_ONCE)
                some, at = native.read(data, at, most, base_offset, base_timestamp)
                if len(some) < most:
                    number = count - remaining + len(some)
                    record, at = _read_carefully(data, at, number, base_offset, base_timestamp, into)
                    some.append(record)
            elif quick:
                most = min(remaining, RECORDS_AT_ONCE)
                at = _read_some(data, at, most, count - remaining, base_offset, base_timestamp, some, into)
            else:
                record, at = _read_carefully(data, at, count - remaining, base_offset, base_timestamp, into)
                some.append(record)
        except DecodeError:
            yield _stamped(some, append_time)
            raise
        remaining -= len(some)
        yield _stamped(some, append_time)
    if at != len(data):
        raise DecodeError(f"{len(data) - at} trailing bytes after the last record", message=MESSAGE, offset=at)


def _stamped(records: list[R], append_time: int | None) -> list[R]:
    if append_time is not None:
        for record in records:
            record.timestamp = append_time
    return records


def _read_some(
    data: bytes, at: int, most: int, index: int, base_offset: int, base_timestamp: int, some: list[R], into: type[R]
) -> int:
    """Decode up to ``most`` records on the fast path, and append them to ``some``.

    ``_read_carefully`` decodes unusual records, and raises DecodeError for an invalid record. The function returns
    early after an unusual record with more than FEW_HEADERS headers.

    This function is long and not divided into helpers, because decoding spends most of its time here. A byte below 128
    is a complete varint. The values of varints of two bytes are in a table; the lookup raises an exception for a
    negative length and for a longer varint. Timestamps and offsets may take more bytes.

    Args:
        data: decompressed records.
        at: offset of the first record.
        most: maximum number of records.
        index: number of the first record in the batch.
        base_offset: base offset of the batch.
        base_timestamp: timestamp in the batch header, in milliseconds since 1970.
        some: list to which the records are appended.
        into: Record, or a subclass whose additional fields are not set.

    Returns: the offset of the next record.
    """
    new, head, append, low, high, only = object.__new__, _HEAD, some.append, _LOW, _HIGH, _ONLY
    names: dict[bytes, str] = {}
    total = len(data)
    for number in range(index, index + most):
        begin = at
        try:
            # Up to 8 bytes: length (1 or 2), attributes, timestamp (1 or 2), offset (1 or 2), length of the key.
            a, b, c, d, e, f, g, h = head(data, at)
            if a >= 128:
                at += 2
                end = at + low[a] + high[b]
            else:
                at += 1
                end = at + low[a]
                d, e, f, g, h = c, d, e, f, g
            record = new(into)
            if d >= 128:
                if e >= 128:
                    d, at = _long_varint(data, at + 1, _SHIFTS)
                    e, f, g = data[at], data[at + 1], data[at + 2]
                    at -= 2
                else:
                    d += (e << 7) - 128
                    e, f, g = f, g, h
                    at += 1
            record.timestamp = base_timestamp + (d >> 1) if not d & 1 else base_timestamp - (d >> 1) - 1
            if e >= 128:
                if f >= 128:
                    e, at = _long_varint(data, at + 2, _INT_SHIFTS)
                    if e & 1 or e > 2 * MAX_DELTA:
                        raise _Unusual
                    record.offset = base_offset + (e >> 1)
                    f = data[at]
                    at += 1
                else:
                    record.offset = base_offset + low[e] + high[f]
                    at += 5
                    f = g
            else:
                record.offset = base_offset + low[e]
                at += 4
            if f == 1:
                record.key = None
            elif f < 128:
                stop = at + low[f]
                record.key = data[at:stop]
                at = stop
            else:
                stop = at + 1 + low[f] + high[data[at]]
                record.key = data[at + 1 : stop]
                at = stop
            f = data[at]
            if f == 1:
                record.value = None
                at += 1
            elif f < 128:
                stop = at + 1 + low[f]
                record.value = data[at + 1 : stop]
                at = stop
            else:
                stop = at + 2 + low[f] + high[data[at + 1]]
                record.value = data[at + 2 : stop]
                at = stop
            f = data[at]
            at += 1
            if f:
                headers: list[tuple[str, bytes | None]] = []
                for _ in range(only[f]):
                    f = data[at]
                    at += 1
                    stop = at + only[f]
                    raw = data[at:stop]
                    name = names.get(raw)
                    if name is None:
                        name = names[raw] = str(raw, "utf-8")
                    f = data[stop]
                    at = stop + 1
                    if f == 1:
                        headers.append((name, None))
                        continue
                    if f < 128:
                        stop = at + low[f]
                    else:
                        stop = at + 1 + low[f] + high[data[at]]
                        at += 1
                    headers.append((name, data[at:stop]))
                    at = stop
                record.headers = tuple(headers)
            else:
                record.headers = ()
            if at != end or at > total:  # the last slice is too short if the data ends before the record does
                raise _Unusual
        except _UNUSUAL:
            record, at = _read_carefully(data, begin, number, base_offset, base_timestamp, into)
            if len(record.headers) > FEW_HEADERS:  # limits the memory of one step
                append(record)
                return at
        append(record)
    return at


def _long_varint(data: bytes, at: int, shifts: Sequence[int]) -> tuple[int, int]:
    """Return the unsigned value of the varint at offset ``at``, and the offset after it. The value is not
    zigzag-decoded.

    ``shifts``: number of bits below those of each byte. Raises: _Unusual if the varint has more bytes.
    """
    value = 0
    for shift in shifts:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise _Unusual


def _read_carefully(
    data: bytes, at: int, number: int, base_offset: int, base_timestamp: int, into: type[R]
) -> tuple[R, int]:
    """Decode one record with all checks; return the record and the offset of the next record.

    Args:
        data: decompressed records.
        at: offset of the record.
        number: index of the record in the batch, for errors.
        base_offset: base offset of the batch.
        base_timestamp: timestamp in the batch header, in milliseconds since 1970.
        into: Record, or a subclass whose additional fields are not set.

    Raises: DecodeError with path and offset of the invalid part.
    """
    path = f"records[{number}]"
    begin = at
    size, at = _varint(data, at, path)
    if size < 0 or size > len(data) - at:
        raise Truncated(
            f"a record has {size} bytes, but only {len(data) - at} remain", message=MESSAGE, path=path, offset=begin
        )
    end = at + size
    at += 1  # attributes of a record are unused
    timestamp, at = _varint(data, at, f"{path}.timestamp", _LONG)
    offset, at = _varint(data, at, f"{path}.offset")
    key, at = _blob(data, at, f"{path}.key")
    value, at = _blob(data, at, f"{path}.value")
    headers, at = _headers(data, at, end, f"{path}.headers")
    if at != end:
        raise DecodeError(
            f"the length of the record is {size}, but its fields take {size + at - end} bytes",
            message=MESSAGE,
            path=path,
            offset=begin,
        )
    stamp = int64(base_timestamp + timestamp)
    record = object.__new__(into)
    record.offset, record.timestamp = int64(base_offset + offset), stamp
    record.key, record.value, record.headers = key, value, headers
    return record, at


def _headers(data: bytes, at: int, end: int, path: str) -> tuple[Headers, int]:
    begin = at
    count, at = _varint(data, at, path)
    remaining = max(end - at, 0)
    if not 0 <= count * SMALLEST_HEADER <= remaining:
        raise LimitError(f"{count} headers do not fit into {remaining} bytes", message=MESSAGE, path=path, offset=begin)
    if count > MAX_HEADERS:
        raise LimitError(f"{count} headers exceed the limit of {MAX_HEADERS}", message=MESSAGE, path=path, offset=begin)
    headers: list[tuple[str, bytes | None]] = []
    for index in range(count):
        begin = at
        name, at = _blob(data, at, f"{path}[{index}].key")
        if name is None:
            raise DecodeError(
                "the key of a header is null, but Kafka requires a string",
                message=MESSAGE,
                path=f"{path}[{index}].key",
                offset=begin,
            )
        content, at = _blob(data, at, f"{path}[{index}].value")
        headers.append((str(name, "utf-8", "surrogateescape"), content))
    return tuple(headers), at


def _varint(data: bytes, at: int, path: str, longest: int = _INT) -> tuple[int, int]:
    """Return the zigzag varint at offset ``at``, and the offset after it. As in Java, bits that do not fit are dropped.

    Args:
        data: decompressed records.
        at: offset of the varint.
        path: path of the field, for errors.
        longest: maximum length of the varint, in bytes.

    Raises: Truncated if the bytes end too early; LimitError if the varint has more than ``longest`` bytes.
    """
    value = 0
    for index in range(longest):
        if at + index >= len(data):
            raise Truncated("the data ends inside a varint", message=MESSAGE, path=path, offset=at)
        byte = data[at + index]
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            value &= 0xFFFF_FFFF if longest == _INT else 0xFFFF_FFFF_FFFF_FFFF
            return (value >> 1) ^ -(value & 1), at + index + 1
    raise LimitError(f"a varint is longer than the limit of {longest} bytes", message=MESSAGE, path=path, offset=at)


def _blob(data: bytes, at: int, path: str) -> tuple[bytes | None, int]:
    begin = at
    size, at = _varint(data, at, path)
    if size < 0:
        return None, at
    if size > len(data) - at:
        raise Truncated(f"expected {size} bytes, found {len(data) - at}", message=MESSAGE, path=path, offset=begin)
    return data[at : at + size], at + size


def write_records(records: Sequence[Record], deltas: list[int] | None, base_timestamp: int) -> bytes:
    """Return the encoded records: the part of a batch after its header.

    Args:
        records: the records of one batch, in order.
        deltas: offset of each record relative to the batch's base offset; None for 0, 1, 2 ...
        base_timestamp: timestamp in the batch header, in milliseconds since 1970.

    Raises: EncodeError if a value cannot be encoded, or has the wrong type.
    """
    written = written_natively(Record, records, deltas, base_timestamp)
    if written is not None:
        return written
    try:
        return _write_some(records, deltas, base_timestamp)
    except WRONG_TYPE:
        check_types(records)
        raise


def _write_some(records: Sequence[Record], deltas: list[int] | None, base_timestamp: int) -> bytes:
    """Return the encoded records, as ``write_records`` does. A value of the wrong type raises an error of Python."""
    parts: list[bytes] = []
    table, short, join = _VARINTS, _SHORT, b"".join
    names: dict[str, bytes] = {}
    if deltas is None:
        offsets: Iterable[bytes] = chain(_VARINTS, map(varint, range(_SHORT, len(records))))
    else:
        offsets = map(_delta, deltas)
    for record, offset in zip(records, offsets, strict=False):  # there are more varints than records
        key, value, headers = record.key, record.value, record.headers
        timestamp = record.timestamp - base_timestamp
        stamp = table[timestamp] if 0 <= timestamp < short else varint(int64(timestamp))
        if key is None:
            key_size, key = _NULL, b""
        else:
            if key.__class__ is not bytes:
                key = as_bytes(key)
            key_size = table[size] if (size := len(key)) < short else varint(size)
        if value is None:
            value_size, value = _NULL, b""
        else:
            if value.__class__ is not bytes:
                value = as_bytes(value)
            value_size = table[size] if (size := len(value)) < short else varint(size)
        if headers:
            count = table[size] if (size := len(headers)) < short else varint(size)
            fields = [b"\0", stamp, offset, key_size, key, value_size, value, count]
            for name, content in headers:
                raw = names.get(name)
                if raw is None:
                    raw = names[name] = _name(name)
                if content is None:
                    fields += raw, _NULL
                else:
                    if content.__class__ is not bytes:
                        content = as_bytes(content)
                    fields += raw, table[size] if (size := len(content)) < short else varint(size), content
            body = join(fields)
        elif len(value) > _LARGE:
            head = join((b"\0", stamp, offset, key_size, key, value_size))
            size = len(head) + len(value) + 1
            parts += table[size] if size < short else varint(size), head, value, b"\0"
            continue
        else:
            body = join((b"\0", stamp, offset, key_size, key, value_size, value, b"\0"))
        parts += table[size] if (size := len(body)) < short else varint(size), body
    return join(parts)


def as_bytes(value: bytes) -> bytes:
    """Return bytes, or a bytearray or memoryview whose length is its number of bytes.

    Raises: TypeError for a value of another type.
    """
    if isinstance(value, memoryview):
        return cast("bytes", value) if value.contiguous and value.nbytes == len(value) else value.tobytes()
    if isinstance(value, (bytes, bytearray)):
        return value
    raise TypeError(type(value).__name__)


def check_types(records: Sequence[Record], message: str = MESSAGE) -> None:
    """Check the types of the fields of records. ``message``: name of the message in the error.

    Raises: EncodeError for the first field of a wrong type, with its path.
    """
    for number, record in enumerate(records):
        path = f"records[{number}]"
        try:
            _check_type(record, path, Record)
            _check_type(record.offset, f"{path}.offset", int)
            _check_type(record.timestamp, f"{path}.timestamp", int)
            _check_type(record.key, f"{path}.key", *CONTENTS)
            _check_type(record.value, f"{path}.value", *CONTENTS)
            _check_type(record.headers or (), f"{path}.headers", tuple, Sequence)
            for index, header in enumerate(record.headers or ()):
                at = f"{path}.headers[{index}]"
                _check_type(header, at, tuple, list)
                if len(header) != 2:
                    raise EncodeError(f"expected a key and a value, got {len(header)} elements", path=at)
                _check_type(header[0], f"{at}.key", str)
                _check_type(header[1], f"{at}.value", *CONTENTS)
        except EncodeError as error:
            error.message = message
            raise


def _check_type(value: object, path: str, *expected: type) -> None:
    if not isinstance(value, expected):
        raise EncodeError(f"expected {expected[0].__name__}, got {type(value).__name__}", path=path)


def _delta(value: int) -> bytes:
    if not -MAX_DELTA <= value <= MAX_DELTA:
        raise EncodeError(
            f"an offset delta of {value:+d} is out of range ({-MAX_DELTA} to {MAX_DELTA})", message=MESSAGE
        )
    return varint(value)


def _name(name: str) -> bytes:
    try:
        raw = name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise EncodeError(f"header key {name!r} cannot be encoded as UTF-8: {error.reason}", message=MESSAGE) from error
    return varint(len(raw)) + raw


def int64(value: int) -> int:
    """Return an integer wrapped around to 64 bits, as when a Java long overflows.

    ``value``: the sum of two 64-bit integers.
    """
    return (value & 0xFFFF_FFFF_FFFF_FFFF ^ 2**63) - 2**63
