"""Functions that compiled readers and writers call: for arrays of numbers, varints, UUIDs and tagged sections.

The functions keep no error context: invalid input raises Refused, or any exception of ``struct`` and Python.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from functools import partial
from typing import Any
from uuid import UUID, SafeUUID

from kwire.buffers import STEP, join_in_steps
from kwire.engines import varints
from kwire.limits import MAX_TEXT, MAX_VARINT, TAG_WEIGHT
from kwire.schema import ZERO_UUID

TABLE_SIZE = 512  # maximum entries of one table; once a table is full, further counts are slower
MAX_PACKED = 65_536  # elements of an array whose function is cached

Read = Callable[[bytes, int], Any]


class Refused(ValueError):
    """The exception of a compiled reader or writer for invalid bytes or values. It contains no field path and no
    offset.
    """


class NativeRefused(Refused):
    """The exception of a native reader or writer for invalid bytes or values.

    Its arguments are the kind of the error (INVALID, TRUNCATED or TOO_HEAVY in ``native``), and the offset at which the
    reader stopped.
    """


class Unpackers(dict[int, Read]):
    """A cache of functions. Each function reads an array of one length, together with the fixed-size fields after the
    array.

    The key is the length as encoded on the wire. At most TABLE_SIZE functions are cached.

    Attributes:
        code: struct code of an element.
        tail: struct codes of the fixed-size fields after the array.
        more: number that the encoding adds to a length: 1 in the compact encoding, else 0.
        null: True if the array may be null; a null array is decoded as an empty list.
    """

    def __init__(self, code: str, tail: str, more: int, null: bool) -> None:
        super().__init__()
        self.code, self.tail, self.more, self.null = code, tail, more, null

    def __missing__(self, wire: int) -> Read:
        length = wire - self.more
        if length < 0:
            if not self.null:
                raise Refused
            length = 0
        unpack: Read = struct.Struct(f">{repeated(self.code, length)}{self.tail}").unpack_from
        if len(self) < TABLE_SIZE and length <= MAX_PACKED:
            self[wire] = unpack
        return unpack


class Packers(dict[int, Callable[..., bytes]]):
    """A cache of functions. Each function gets the elements of an array as arguments, and returns the encoded array.

    The key is the number of elements. At most TABLE_SIZE functions are cached.

    Attributes:
        code: struct code of an element.
        compact: True for the compact encoding of the count.
    """

    def __init__(self, code: str, compact: bool) -> None:
        super().__init__()
        self.code, self.compact = code, compact

    def __missing__(self, length: int) -> Callable[..., bytes]:
        count = varint(length + 1) if self.compact else struct.pack(">i", length)
        pack = partial(struct.Struct(f">{len(count)}s{length}{self.code}").pack, count)
        if len(self) < TABLE_SIZE and length <= MAX_PACKED:
            self[length] = pack
        return pack


def repeated(code: str, length: int) -> str:
    """Return the format string of an array for Python's ``struct``. ``code``: struct code of an element.

    If an element is bytes, such as ``16s``, the format describes one bytes object with all elements.
    """
    return f"{int(code[:-1]) * length}s" if len(code) > 1 else f"{length}{code}"


def uvarint(buf: bytes, pos: int, first: int) -> tuple[int, int]:
    """Decode an unsigned varint of several bytes; return the value and the offset after the varint.

    Raises: Refused if the varint has more than five bytes or its value is above MAX_VARINT.

    Args:
        buf: bytes that contain the varint.
        pos: offset of the second byte of the varint.
        first: value of the first byte, above 127.
    """
    value = first & 0x7F
    for shift in (7, 14, 21, 28):
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > MAX_VARINT:
                raise Refused
            return value, pos
    raise Refused


# SECOND[b]: what byte b adds to a varint as its second and last byte; 0 if it is not the last one, or adds nothing.
SECOND = tuple(byte << 7 if byte < 128 else 0 for byte in range(256))


def long_slice(buf: bytes, pos: int, first: int, most: int, null: bool) -> tuple[bytes | None, int]:
    """Return the content of a bytes or string field, and the offset after it. The compact length takes several bytes.

    Raises: Refused if the length is not valid.

    Args:
        buf: bytes that contain the message.
        pos: offset of the second byte of the length.
        first: first byte of the length.
        most: largest valid length, in bytes.
        null: True if null is allowed.

    Returns: the content, or None for null; and the offset after the field.
    """
    number, pos = uvarint(buf, pos, first)
    if number > most + 1 or (number == 0 and not null):
        raise Refused
    end = pos + number - 1
    return (buf[pos:end], end) if number else (None, pos)


def long_slice_in_steps(
    buf: bytes, pos: int, first: int, most: int, null: bool
) -> Generator[None, None, tuple[bytes | None, int]]:
    """Read the content like ``long_slice``, but yield while a long content is copied, so that the caller can do other
    work.

    The generator finally returns the result of ``long_slice``. The arguments and errors are those of ``long_slice``.
    """
    number, at = uvarint(buf, pos, first)
    end = at + number - 1
    if number <= STEP:
        return long_slice(buf, pos, first, most, null)
    if number > most + 1:
        raise Refused
    return (yield from join_in_steps([memoryview(buf)[at:end]])), end


def varint(value: int) -> bytes:
    """Return ``value`` as an unsigned varint. Raises: Refused if the value is above MAX_VARINT."""
    if value > MAX_VARINT:
        raise Refused
    return varints.uvarint(value)


# COUNTS[n]: the compact form of a length or count n below SHORT; above that, varint(n + 1).
COUNTS = varints.SHORT[1:]
SHORT = len(COUNTS)
FLAGS = {False: 0, True: 1}


def text_count(length: int) -> bytes:
    """Return the encoded length of a string in the compact encoding, for a string of at least SHORT bytes.

    Raises: Refused if ``length`` is above MAX_TEXT.
    """
    if length > MAX_TEXT:
        raise Refused
    return varint(length + 1)


_new = object.__new__
_set_int: Any = UUID.__dict__["int"].__set__
_set_is_safe: Any = UUID.__dict__["is_safe"].__set__
_ZERO = ZERO_UUID.bytes


def uuid(data: bytes) -> UUID:
    """Return the UUID with 16 given bytes, like ``UUID(bytes=data)`` but in a third of the time."""
    if data == _ZERO:
        return ZERO_UUID
    value = _new(UUID)
    _set_int(value, int.from_bytes(data, "big"))
    _set_is_safe(value, SafeUUID.unknown)
    return value


def uuids(data: bytes) -> list[UUID]:
    """Return the UUIDs in ``data``, 16 bytes each."""
    return [uuid(data[at : at + 16]) for at in range(0, len(data), 16)]


def uuid_bytes(value: UUID) -> bytes:
    """Return the 16 bytes of a UUID. Raises: Refused if the value is not a UUID."""
    if not isinstance(value, UUID):
        raise Refused
    return value.bytes


def blob(value: Any) -> bytes:
    """Return a bytes-like object as ``bytes``. Raises: Refused for a value of another type."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise Refused


def array(value: Any) -> Sequence[Any]:
    """Check that a value is a list or tuple, and return it unchanged. Raises: Refused for a value of another type."""
    if isinstance(value, (list, tuple)):
        return value
    raise Refused


def read_tags(
    buf: bytes, pos: int, count: int, known: Mapping[int, Callable[[bytes, int, int], tuple[Any, int, int]]], left: int
) -> tuple[dict[int, Any], dict[int, bytes] | None, int, int]:
    """Decode the tagged section of a struct that has at least one tagged field.

    Raises: Refused if a size is not valid, or if the message exceeds its memory.

    Args:
        buf: bytes that contain the message.
        pos: offset of the byte after the first byte of the count.
        count: first byte of the number of tagged fields.
        known: functions that decode the value of a declared tag: ``(buf, pos, left) -> (value, pos, left)``.
        left: memory that the decoded message may still take, in bytes.

    Returns: values by declared tag; bytes by undeclared tag, or None if there are no undeclared tags; the offset after
    the section; and the memory, in bytes, that the decoded message may still take after it.
    """
    if count > 127:
        count, pos = uvarint(buf, pos, count)
    values: dict[int, Any] = {}
    unknown: dict[int, bytes] = {}
    for _ in range(count):
        tag = buf[pos]
        pos += 1
        if tag > 127:
            tag, pos = uvarint(buf, pos, tag)
        size = buf[pos]
        pos += 1
        if size > 127:
            size, pos = uvarint(buf, pos, size)
        end = pos + size
        if end > len(buf):
            raise Refused
        if tag in known:
            values[tag], pos, left = known[tag](buf, pos, left)
            if pos != end:
                raise Refused
        else:
            left -= TAG_WEIGHT
            if left < 0:
                raise Refused
            unknown[tag] = buf[pos:end]
            pos = end
    return values, unknown or None, pos, left


def write_tags(known: Mapping[int, bytes], unknown: Any, every_known: Collection[int]) -> bytes:
    """Return the encoded tagged section of a struct. Raises: Refused for a tag or value that is not valid.

    Args:
        known: encoded values of the declared fields that differ from their default, by tag.
        unknown: bytes of undeclared fields by tag; None if there are no undeclared fields.
        every_known: tags of all declared fields.
    """
    fields = dict(known)
    for tag, content in unknown.items() if isinstance(unknown, Mapping) else _none_of(unknown):
        if not isinstance(tag, int) or not 0 <= tag <= MAX_VARINT or tag in every_known:
            raise Refused
        fields[int(tag)] = blob(content)
    out = [varint(len(fields))]
    for tag in sorted(fields):
        out += (varint(tag), varint(len(fields[tag])), fields[tag])
    return b"".join(out)


def _none_of(unknown: Any) -> Sequence[tuple[int, bytes]]:
    if unknown:
        raise Refused
    return ()
