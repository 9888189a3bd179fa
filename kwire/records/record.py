"""Records of magic 2 as bytes: what stands behind the header of a batch once it is decompressed.

Reading has a fast way for the usual record, and a careful one that is taken for a single record where the fast one
meets anything else: varints of more than two bytes, or an error, which it names. The fast way checks no bounds; an
index behind the end, or an end that is not where the record's length says, sends it the careful way.
Source: org.apache.kafka.common.record.DefaultRecord.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeVar

from kwire.engines.varints import SHORT, uvarint
from kwire.errors import DecodeError, EncodeError, LimitError, Truncated
from kwire.records.limits import MAX_HEADERS, RECORDS_AT_ONCE, SMALLEST_HEADER

Headers = Sequence[tuple[str, bytes | None]]

MAX_DELTA = 2**31 - 1  # of an offset
FEW_HEADERS = 63  # as many as one byte can say
MESSAGE = "RecordBatch"

_HEAD = struct.Struct("8B").unpack_from
_VARINTS = tuple(SHORT[::2])  # of the numbers below _SHORT, in zigzag form
_SHORT = len(_VARINTS)
# What the two bytes of a varint are worth; a negative one is a TypeError, a third byte an IndexError.
_LOW: tuple[Any, ...] = tuple((n & 0x7F) >> 1 if n % 2 == 0 else None for n in range(256))
_HIGH = tuple(n << 6 for n in range(128))
_LARGE = 300  # bytes of a value from which on it is cheaper not to copy it once more
_NULL = b"\x01"  # the length of what is null
_INT = 5  # bytes that a varint of 32 bits may take; Kafka refuses more
_LONG = 10


@dataclass(slots=True, kw_only=True, eq=False)
class Record:
    """One record. ``timestamp`` in milliseconds since 1970; ``headers`` keep their order."""

    offset: int = 0
    timestamp: int = 0
    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = ()

    def __eq__(self, other: object) -> bool:
        """True if all is equal; a list of headers equals a tuple of the same."""
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
    """The fast way does not know this record."""


_UNUSUAL = (_Unusual, IndexError, TypeError, struct.error, UnicodeDecodeError)


def read_records(
    data: bytes,
    at: int,
    count: int,
    base_offset: int,
    base_timestamp: int,
    append_time: int | None,
    into: type[R],
) -> Iterator[list[R]]:
    """``count`` records from ``at`` to the end, some at a time; those before a broken one come before its error.

    ``append_time``: their timestamp, None if each has its own. ``into``: Record, or a class derived from it whose other
    fields are left unset. A memoryview as ``data`` gives keys and values that are
    memoryviews.
    Raises: DecodeError, whose path is below the batch and whose offset is that in ``data``.
    """
    left = count
    quick = max(base_offset, abs(base_timestamp)) < 2**62  # else a sum may not fit into an int64
    while left:
        some: list[R] = []
        try:
            if quick:
                most = min(left, RECORDS_AT_ONCE)
                at = _read_some(data, at, most, count - left, base_offset, base_timestamp, some, into)
            else:
                record, at = _read_carefully(data, at, count - left, base_offset, base_timestamp, into)
                some.append(record)
        except DecodeError:
            yield some
            raise
        if append_time is not None:
            for record in some:
                record.timestamp = append_time
        left -= len(some)
        yield some
    if at != len(data):
        raise DecodeError(f"{len(data) - at} bytes behind the last record", message=MESSAGE, offset=at)


def _read_some(
    data: bytes, at: int, most: int, index: int, base_offset: int, base_timestamp: int, some: list[R], into: type[R]
) -> int:
    """Append up to ``most`` records to ``some``, the first being number ``index``; where the next one begins.

    Long and flat because this is where decoding spends its time. A byte below 128 is a whole varint; of two bytes the
    tables give the value, and raise for what is negative or longer. Timestamps and offsets may be longer.
    """
    new, head, append, low, high = object.__new__, _HEAD, some.append, _LOW, _HIGH
    names: dict[bytes, str] = {}
    for number in range(index, index + most):
        begin = at
        try:
            # Up to 8 bytes: length (1 or 2), attributes, timestamp (1 or 2), offset (1 or 2), length of the key.
            a, b, c, d, e, f, g, h = head(data, at)
            if a > 127:
                at += 2
                end = at + low[a] + high[b]
            else:
                at += 1
                end = at + low[a]
                d, e, f, g, h = c, d, e, f, g
            record = new(into)
            if d > 127:
                if e > 127:
                    d, at = _long_varint(data, at + 1)
                    e, f, g = data[at], data[at + 1], data[at + 2]
                    at -= 2
                else:
                    d += (e << 7) - 128
                    e, f, g = f, g, h
                    at += 1
            record.timestamp = base_timestamp + (d >> 1) if not d & 1 else base_timestamp - (d + 1 >> 1)
            if e > 127:
                if f > 127:
                    e, at = _long_varint(data, at + 2)
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
                if f > 127:
                    raise _Unusual
                headers: list[tuple[str, bytes | None]] = []
                for _ in range(low[f]):
                    f = data[at]
                    if f > 127:
                        raise _Unusual
                    at += 1
                    stop = at + low[f]
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
            if at != end:
                raise _Unusual
        except _UNUSUAL:
            record, at = _read_carefully(data, begin, number, base_offset, base_timestamp, into)
            if len(record.headers) > FEW_HEADERS:  # not too many of these at once
                append(record)
                return at
        append(record)
    return at


def _long_varint(data: bytes, at: int) -> tuple[int, int]:
    """The varint at ``at``, not yet told apart into positive and negative, and where it ends."""
    value = 0
    for shift in range(0, 56, 7):
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise _Unusual


def _read_carefully(
    data: bytes, at: int, number: int, base_offset: int, base_timestamp: int, into: type[R]
) -> tuple[R, int]:
    """Record ``number``, and where the next one begins. Raises: DecodeError for what is wrong with it."""
    path = f"records[{number}]"
    begin = at
    size, at = _varint(data, at, path)
    if size < 0 or size > len(data) - at:
        raise Truncated(f"a record of {size} bytes, {len(data) - at} left", message=MESSAGE, path=path, offset=begin)
    end = at + size
    at += 1  # attributes of a record are unused
    timestamp, at = _varint(data, at, f"{path}.timestamp", _LONG)
    offset, at = _varint(data, at, f"{path}.offset")
    key, at = _blob(data, at, f"{path}.key")
    value, at = _blob(data, at, f"{path}.value")
    headers, at = _headers(data, at, end, f"{path}.headers")
    if at != end:
        raise DecodeError(
            f"a record of {size} bytes ends {at - end:+d} bytes off", message=MESSAGE, path=path, offset=begin
        )
    stamp = int64(base_timestamp + timestamp)
    record = object.__new__(into)
    record.offset, record.timestamp = int64(base_offset + offset), stamp
    record.key, record.value, record.headers = key, value, headers
    return record, at


def _headers(data: bytes, at: int, end: int, path: str) -> tuple[Headers, int]:
    begin = at
    count, at = _varint(data, at, path)
    left = max(end - at, 0)
    if not 0 <= count * SMALLEST_HEADER <= left:
        raise LimitError(f"{count} headers in {left} bytes", message=MESSAGE, path=path, offset=begin)
    if count > MAX_HEADERS:
        raise LimitError(f"{count} headers, more than {MAX_HEADERS}", message=MESSAGE, path=path, offset=begin)
    headers: list[tuple[str, bytes | None]] = []
    for index in range(count):
        begin = at
        name, at = _blob(data, at, f"{path}[{index}].key")
        if name is None:
            raise DecodeError("a header without a key", message=MESSAGE, path=f"{path}[{index}].key", offset=begin)
        content, at = _blob(data, at, f"{path}[{index}].value")
        headers.append((str(name, "utf-8", "surrogateescape"), content))
    return tuple(headers), at


def _varint(data: bytes, at: int, path: str, longest: int = _INT) -> tuple[int, int]:
    """A zigzag varint of at most ``longest`` bytes, and where it ends; bits that do not fit fall off, as in Java."""
    value = 0
    for index in range(longest):
        if at + index >= len(data):
            raise Truncated("a varint ends too early", message=MESSAGE, path=path, offset=at)
        byte = data[at + index]
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            value &= 0xFFFF_FFFF if longest == _INT else 0xFFFF_FFFF_FFFF_FFFF
            return (value >> 1) ^ -(value & 1), at + index + 1
    raise LimitError(f"a varint is longer than {longest} bytes", message=MESSAGE, path=path, offset=at)


def _blob(data: bytes, at: int, path: str) -> tuple[bytes | None, int]:
    begin = at
    size, at = _varint(data, at, path)
    if size < 0:
        return None, at
    if size > len(data) - at:
        raise Truncated(f"expected {size} bytes, found {len(data) - at}", message=MESSAGE, path=path, offset=begin)
    return data[at : at + size], at + size


def write_records(records: Sequence[Record], deltas: Iterable[int] | None, base_timestamp: int) -> bytes:
    """The records at ``deltas`` from the first offset of the batch, None for 0, 1, 2 ... Raises: EncodeError."""
    parts: list[bytes] = []
    table, short, join = _VARINTS, _SHORT, b"".join
    names: dict[str, bytes] = {}
    if deltas is None:
        offsets: Iterable[bytes] = chain(_VARINTS, map(_zigzag, range(_SHORT, len(records))))
    else:
        offsets = map(_delta, deltas)
    for record, offset in zip(records, offsets, strict=False):  # there are more varints than records
        key, value, headers = record.key, record.value, record.headers
        timestamp = record.timestamp - base_timestamp
        stamp = table[timestamp] if 0 <= timestamp < short else _zigzag(int64(timestamp))
        if key is None:
            key_size, key = _NULL, b""
        else:
            key_size = table[size] if (size := len(key)) < short else _zigzag(size)
        if value is None:
            value_size, value = _NULL, b""
        else:
            value_size = table[size] if (size := len(value)) < short else _zigzag(size)
        if headers:
            count = table[size] if (size := len(headers)) < short else _zigzag(size)
            fields = [b"\0", stamp, offset, key_size, key, value_size, value, count]
            for name, content in headers:
                raw = names.get(name)
                if raw is None:
                    raw = names[name] = _name(name)
                if content is None:
                    fields += raw, _NULL
                else:
                    fields += raw, table[size] if (size := len(content)) < short else _zigzag(size), content
            body = join(fields)
        elif len(value) > _LARGE:
            head = join((b"\0", stamp, offset, key_size, key, value_size))
            size = len(head) + len(value) + 1
            parts += table[size] if size < short else _zigzag(size), head, value, b"\0"
            continue
        else:
            body = join((b"\0", stamp, offset, key_size, key, value_size, value, b"\0"))
        parts += table[size] if (size := len(body)) < short else _zigzag(size), body
    return join(parts)


def _delta(value: int) -> bytes:
    if not -MAX_DELTA <= value <= MAX_DELTA:
        raise EncodeError(f"an offset {value:+d} away from the first of the batch", message=MESSAGE)
    return _zigzag(value)


def _name(name: str) -> bytes:
    try:
        raw = name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise EncodeError(f"a header's key {name!r} is not text: {error.reason}", message=MESSAGE) from error
    return _zigzag(len(raw)) + raw


def _zigzag(value: int) -> bytes:
    return uvarint((value << 1) ^ (value >> 63))


def int64(value: int) -> int:
    """A sum of two int64 as Java has it: one that overflows wraps around."""
    return (value + 2**63) % 2**64 - 2**63
