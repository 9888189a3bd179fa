"""Runtime of compiled readers and writers: tables of packers, varints, uuids, tagged sections.

The functions keep no error context: invalid input raises Refused, or any exception of ``struct`` and Python. Tables
grow with use up to TABLE_SIZE entries.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID, SafeUUID

from kwire.engines import varints
from kwire.limits import MAX_TEXT, MAX_VARINT, TAG_WEIGHT
from kwire.schema import ZERO_UUID

TABLE_SIZE = 512  # maximum entries of one table; once a table is full, new lengths are slower
WARM = 12  # lookups of a key before a function is generated for it
FORGET = 10_000  # misses of a full table before it is cleared
MAX_APART = 12  # largest array whose elements are passed as separate arguments
MAX_PACKED = 65_536  # bytes that one packer of a table may read

Read = Callable[[bytes, int], Any]


class Refused(ValueError):
    """The exception of a compiled reader or writer for invalid bytes or values. It contains no field and no offset."""


class NativeRefused(Refused):
    """The exception of a native reader or writer for invalid bytes or values.

    Its arguments are the kind of the refusal (``native.rough_error``) and the offset that the reader had reached.
    """


class Table(dict[Any, Any]):
    """A cache of generated functions with a maximum of ``most`` entries.

    A full table is cleared after FORGET misses, because its entries no longer match the input.
    """

    most = TABLE_SIZE

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[Any, int] = {}
        self._in_vain = 0

    def is_full(self) -> bool:
        """Return True if the table accepts no more entries.

        Call this method once for each missing key, because it counts the misses.
        """
        if len(self) < self.most:
            return False
        self._in_vain += 1
        if self._in_vain > FORGET:
            self._in_vain = 0
            self._seen.clear()
            self.clear()
        return True

    def is_warm(self, key: Any) -> bool:
        """Count a lookup of this key; return True if it was looked up often enough to generate a function for it."""
        seen = self._seen[key] = self._seen.get(key, 0) + 1
        if len(self._seen) > self.most:
            self._seen.clear()
        return seen >= WARM


class Unpackers(Table):
    """A cache of functions that read an array or string together with the fixed-size fields after it.

    The key is the length as encoded on the wire.

    Attributes:
        code: struct code of an element.
        tail: struct codes of the fixed-size fields after the array.
        more: what the encoding adds to a length: 1 in the compact form, else 0.
        null: True if null is allowed; a null array is decoded as an empty one.
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
        if not self.is_full() and length <= MAX_PACKED:
            self[wire] = unpack
        return unpack


def repeated(code: str, length: int) -> str:
    """Return the format for Python's ``struct`` of an array of ``length`` elements.

    Elements of several bytes, such as ``16s``, become one bytes object.
    """
    return f"{int(code[:-1]) * length}s" if is_one_bytes_object(code) else f"{length}{code}"


def is_one_bytes_object(code: str) -> bool:
    """True for the code of elements of several bytes, which are read and written as a single bytes object."""
    return len(code) > 1


@dataclass(frozen=True, slots=True)
class _WireLength:
    """The length of an array as an argument of struct's ``pack``; the elements are the following arguments.

    Attributes:
        value: the length as an integer, or its encoded bytes in the compact form.
    """

    value: bytes | int


@dataclass(frozen=True, slots=True)
class _Value:
    """A single value as an argument of struct's ``pack``."""


@dataclass(frozen=True, slots=True)
class _Elements:
    """The elements of an array as arguments of struct's ``pack``; the caller of a packer passes them as one list.

    Attributes:
        length: number of elements in the list.
    """

    length: int


_Plan = list[_WireLength | _Value | _Elements]


class Packers(Table):
    """A table of functions that write fixed fields and the arrays of fixed elements between them.

    The key is the length of the array, or a tuple of lengths if there are several arrays. The functions take the values
    in order, each array as one list; elements of several bytes (``*16s``) are a single bytes object.

    Args:
        pieces: struct codes in order; ``*i`` is a compact count with elements of code ``i``, ``+i`` is a four-byte
            count with such elements.
    """

    def __init__(self, *pieces: str) -> None:
        super().__init__()
        self.pieces = pieces

    def __missing__(self, key: int | tuple[int, ...]) -> Callable[..., bytes]:
        pack, plan = self._plan((key,) if isinstance(key, int) else key)
        if self.is_full() or not self.is_warm(key):
            return _generic_packer(pack, plan)
        self[key] = write = _generated_packer(pack, plan)
        return write

    def _plan(self, lengths: Sequence[int]) -> tuple[Callable[..., bytes], _Plan]:
        """Return struct's ``pack`` for arrays of these lengths, and a plan of the arguments to call it with."""
        codes, plan = ">", _Plan()
        left = iter(lengths)
        for piece in self.pieces:
            if piece[0] not in "*+":
                codes += piece
                plan += [_Value()] * _values(piece)
                continue
            length, code = next(left), piece[1:]
            if piece[0] == "+":
                codes += "i"
                plan.append(_WireLength(length))
            else:
                count = varint(length + 1)
                codes += f"{len(count)}s"
                plan.append(_WireLength(count))
            codes += repeated(code, length)
            plan.append(_Value() if is_one_bytes_object(code) else _Elements(length))
        return struct.Struct(codes).pack, plan


def _values(codes: str) -> int:
    """Return how many values a struct format packs."""
    return len(struct.unpack(f">{codes}", bytes(struct.calcsize(f">{codes}"))))


def _generic_packer(pack: Callable[..., bytes], plan: _Plan) -> Callable[..., bytes]:
    """Return a packer that works for any lengths, without generated code. It is used for rare lengths."""

    def packed(*values: Any) -> bytes:
        remaining = iter(values)
        arguments: list[Any] = []
        for part in plan:
            match part:
                case _WireLength(value):
                    arguments.append(value)
                case _Value():
                    arguments.append(next(remaining))
                case _Elements():
                    arguments += next(remaining)
        return pack(*arguments)

    return packed


def _generated_packer(pack: Callable[..., bytes], plan: _Plan) -> Callable[..., bytes]:
    """Return a generated packer for one combination of lengths. It is used for frequent lengths.

    The code assigns the elements of short arrays to variables, which is faster than ``*``.
    """
    arguments: list[str] = []
    before: list[str] = []  # lines that unpack arrays
    packed: list[str] = []
    for part in plan:
        if isinstance(part, _WireLength):
            packed.append(repr(part.value))
            continue
        name = f"v{len(arguments)}"
        arguments.append(name)
        match part:
            case _Value():
                packed.append(name)
            case _Elements(length) if length <= MAX_APART:
                parts = [f"{name}_{n}" for n in range(length)]
                before.append(f" [{', '.join(parts)}] = {name}")
                packed += parts
            case _Elements():
                packed.append(f"*{name}")
    source = [f"def packed({', '.join(arguments)}):", *before, f" return pack({', '.join(packed)})"]
    space: dict[str, Any] = {"pack": pack}
    exec("\n".join(source), space)  # noqa: S102 - generated from checked numbers
    packer: Callable[..., bytes] = space["packed"]
    return packer


def uvarint(buf: bytes, pos: int, first: int) -> tuple[int, int]:
    """Decode an unsigned varint of several bytes; return the value and the offset after the varint.

    Args:
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
    """Return the encoded length of a string in the compact form, for strings of at least SHORT bytes.

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
    """Return the UUID of 16 bytes, like ``UUID(bytes=data)`` but in a third of the time."""
    if data == _ZERO:
        return ZERO_UUID
    value = _new(UUID)
    _set_int(value, int.from_bytes(data, "big"))
    _set_is_safe(value, SafeUUID.unknown)
    return value


def uuids(data: bytes) -> list[UUID]:
    """Return the uuids in ``data``, 16 bytes each."""
    return [uuid(data[at : at + 16]) for at in range(0, len(data), 16)]


def uuid_bytes(value: UUID) -> bytes:
    """Return the 16 bytes of a uuid. Raises: Refused if it is not a UUID."""
    if not isinstance(value, UUID):
        raise Refused
    return value.bytes


def blob(value: Any) -> bytes:
    """Return any bytes-like object as ``bytes``. Raises: Refused for a value of another type."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise Refused


def array(value: Any) -> Sequence[Any]:
    """Return a list or tuple unchanged. Raises: Refused for a value of another type."""
    if isinstance(value, (list, tuple)):
        return value
    raise Refused


def read_tags(
    buf: bytes, pos: int, count: int, known: Mapping[int, Callable[[bytes, int, int], tuple[Any, int, int]]], left: int
) -> tuple[dict[int, Any], dict[int, bytes] | None, int, int]:
    """Decode the tagged section of a struct, if it has at least one field.

    Args:
        buf: bytes that contain the message.
        pos: offset of the byte after the count.
        count: first byte of the count.
        known: functions that decode the value of a declared tag: ``(buf, pos, left) -> (value, pos, left)``.
        left: memory that the decoded message may still take, in bytes.

    Returns: values by declared tag, bytes by undeclared tag, the offset after the section, and the remaining memory in
    bytes.
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
    """Return the encoded tagged section of a struct.

    Args:
        known: encoded fields that are not at their default, by tag.
        unknown: bytes of undeclared fields by tag; None for an empty mapping.
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
