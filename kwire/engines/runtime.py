"""What compiled readers and writers call for: tables of packers, varints, uuids, tagged sections.

Nothing here keeps books: whatever is wrong raises Refused, or what ``struct`` and Python raise by themselves. The
tables grow with use up to TABLE_SIZE entries, whatever bytes come.
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

TABLE_SIZE = 512  # entries of one table; lengths beyond those seen first cost a little more
WARM = 12  # how often something must come up before a function is generated for it
FORGET = 10_000  # how often a full table is asked for something else before it begins anew
MAX_APART = 12  # elements of an array that are handed on one by one
MAX_PACKED = 65_536  # longest stretch of bytes that is read by one packer of a table

Read = Callable[[bytes, int], Any]


class Refused(ValueError):
    """The bytes or the value are not what this version can hold."""


class Table(dict[Any, Any]):
    """What is made for a key when it is first asked for, or often enough, and kept: ``most`` entries, whatever comes.

    A full table that was asked for something else FORGET times begins anew: what it keeps is not what comes now.
    """

    most = TABLE_SIZE

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[Any, int] = {}
        self._in_vain = 0

    def is_full(self) -> bool:
        """True if nothing more is to be kept; asked once for a key that is not there."""
        if len(self) < self.most:
            return False
        self._in_vain += 1
        if self._in_vain > FORGET:
            self._in_vain = 0
            self._seen.clear()
            self.clear()
        return True

    def is_warm(self, key: Any) -> bool:
        """True if this key was asked for often enough to generate something for it."""
        seen = self._seen[key] = self._seen.get(key, 0) + 1
        if len(self._seen) > self.most:
            self._seen.clear()
        return seen >= WARM


class Unpackers(Table):
    """Length as it stands on the wire -> what reads that many elements and the fixed fields behind them.

    ``code``: struct code of an element; ``tail``: codes of the fields behind; ``more``: how much the number on the wire
    is above the length. A null reads as empty, if ``null``.
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
        found: Read = struct.Struct(f">{repeated(self.code, length)}{self.tail}").unpack_from
        if not self.is_full() and length <= MAX_PACKED:
            self[wire] = found
        return found


def repeated(code: str, length: int) -> str:
    """The struct format of ``length`` elements; those of several bytes each (``16s``) are one stretch of bytes."""
    return f"{int(code[:-1]) * length}s" if is_stretched(code) else f"{length}{code}"


def is_stretched(code: str) -> bool:
    """True for elements of several bytes each: arrays of them come as one stretch of bytes."""
    return len(code) > 1


@dataclass(frozen=True, slots=True)
class _Known:
    """An argument of ``pack`` that follows from the lengths."""

    value: bytes | int


@dataclass(frozen=True, slots=True)
class _Value:
    """An argument of ``pack`` that the caller gives as it is."""


@dataclass(frozen=True, slots=True)
class _Elements:
    """Arguments of ``pack`` that the caller gives as one list of this length."""

    length: int


_Plan = list[_Known | _Value | _Elements]


class Packers(Table):
    """Lengths -> what writes a run of fixed fields with arrays of fixed elements between them.

    ``pieces``: struct codes in order; a piece ``*i`` is the compact count of an array and its elements of code ``i``,
    ``+i`` the same with a count of four bytes. The key is the length of the array, or the tuple of lengths if there are
    several. What comes out takes the values in order, each array as one list; elements of several bytes (``*16s``) as
    one stretch of bytes.
    """

    def __init__(self, *pieces: str) -> None:
        super().__init__()
        self.pieces = pieces

    def __missing__(self, key: int | tuple[int, ...]) -> Callable[..., bytes]:
        pack, plan = self._plan((key,) if isinstance(key, int) else key)
        if self.is_full() or not self.is_warm(key):
            return _slowly(pack, plan)
        self[key] = found = _exactly(pack, plan)
        return found

    def _plan(self, lengths: Sequence[int]) -> tuple[Callable[..., bytes], _Plan]:
        """What packs, and what it is given."""
        codes, given = ">", _Plan()
        left = iter(lengths)
        for piece in self.pieces:
            if piece[0] not in "*+":
                codes += piece
                given += [_Value()] * _values(piece)
                continue
            length, code = next(left), piece[1:]
            if piece[0] == "+":
                codes += "i"
                given.append(_Known(length))
            else:
                count = varint(length + 1)
                codes += f"{len(count)}s"
                given.append(_Known(count))
            codes += repeated(code, length)
            given.append(_Value() if is_stretched(code) else _Elements(length))
        return struct.Struct(codes).pack, given


def _values(codes: str) -> int:
    """How many values a struct format takes."""
    return len(struct.unpack(f">{codes}", bytes(struct.calcsize(f">{codes}"))))


def _slowly(pack: Callable[..., bytes], plan: _Plan) -> Callable[..., bytes]:
    """For lengths that did not come often: nothing is generated."""

    def packed(*values: Any) -> bytes:
        left = iter(values)
        given: list[Any] = []
        for part in plan:
            match part:
                case _Known(value):
                    given.append(value)
                case _Value():
                    given.append(next(left))
                case _Elements():
                    given += next(left)
        return pack(*given)

    return packed


def _exactly(pack: Callable[..., bytes], plan: _Plan) -> Callable[..., bytes]:
    """For lengths that come again and again: short arrays are taken apart, which is faster than ``*``."""
    arguments: list[str] = []
    before: list[str] = []  # lines that take arrays apart
    packed: list[str] = []
    for part in plan:
        if isinstance(part, _Known):
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
    exec("\n".join(source), space)  # noqa: S102 - made of checked numbers
    found: Callable[..., bytes] = space["packed"]
    return found


def uvarint(buf: bytes, pos: int, first: int) -> tuple[int, int]:
    """The varint whose first byte, above 127, stands before ``pos``; and the offset behind it."""
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
    """``value`` as an unsigned varint that Kafka reads."""
    if value > MAX_VARINT:
        raise Refused
    return varints.uvarint(value)


# COUNTS[n]: the compact form of a length or count n, for n below SHORT; varint(n + 1) for those above.
COUNTS = varints.SHORT[1:]
SHORT = len(COUNTS)
FLAGS = {False: 0, True: 1}


def text_count(length: int) -> bytes:
    """The compact length of a string that is longer than SHORT."""
    if length > MAX_TEXT:
        raise Refused
    return varint(length + 1)


_new = object.__new__
_set_int: Any = UUID.__dict__["int"].__set__
_set_is_safe: Any = UUID.__dict__["is_safe"].__set__
_ZERO = ZERO_UUID.bytes


def uuid(data: bytes) -> UUID:
    """What ``UUID(bytes=data)`` gives, in a third of the time."""
    if data == _ZERO:
        return ZERO_UUID
    made = _new(UUID)
    _set_int(made, int.from_bytes(data, "big"))
    _set_is_safe(made, SafeUUID.unknown)
    return made


def uuids(data: bytes) -> list[UUID]:
    """Uuids that stand one behind the other."""
    return [uuid(data[at : at + 16]) for at in range(0, len(data), 16)]


def uuid_bytes(value: UUID) -> bytes:
    """The 16 bytes of a uuid."""
    if not isinstance(value, UUID):
        raise Refused
    return value.bytes


def blob(value: Any) -> bytes:
    """What may stand for bytes, as bytes."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise Refused


def array(value: Any) -> Sequence[Any]:
    """What may stand for a list."""
    if isinstance(value, (list, tuple)):
        return value
    raise Refused


def read_tags(
    buf: bytes, pos: int, count: int, known: Mapping[int, Callable[[bytes, int, int], tuple[Any, int, int]]], left: int
) -> tuple[dict[int, Any], dict[int, bytes] | None, int, int]:
    """A tagged section whose count is not zero: values of known tags, bytes of unknown ones, the offset behind it, and
    what is left to be weighed.

    ``count``: first byte of the count; ``known``: tag -> (buf, pos, left) -> (value, pos, left).
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
    """A tagged section. ``known``: those fields that are not at their default; ``every_known``: all known tags."""
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
