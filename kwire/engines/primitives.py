"""Construct classes for Kafka's wire types. Each class checks a length or count before it uses the number.

The construct package has its own classes for values of variable length, but they are not used: its varints have no
length limit, its arrays loop over any count, and its errors have no byte offset. Every failure in this module is a
DecodeError or EncodeError with the path of the field; a DecodeError also contains the byte offset where the field
begins.

As in Kafka, any negative length is null, any non-zero byte is true, and unknown or unordered tags are accepted. Text
that is not UTF-8 is decoded with surrogate escapes, so that encoding results in the same bytes again.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Mapping
from typing import Any, BinaryIO
from uuid import UUID

from construct import Construct

from kwire.engines.varints import uvarint
from kwire.errors import DecodeError, EncodeError, LimitError, Truncated
from kwire.limits import MAX_TEXT, MAX_VARINT, TAG_WEIGHT


def where(path: str) -> str:
    """Convert a field path of the construct package to a field path for error messages.

    For example, ``(parsing) -> protocols -> [0] -> metadata`` becomes ``protocols[0].metadata``.
    """
    return ".".join(path.split(" -> ")[1:]).replace(".[", "[")


def read(stream: BinaryIO, size: int, path: str, start: int) -> bytes:
    """Read exactly ``size`` bytes from a stream.

    Args:
        stream: stream that contains the message.
        size: number of bytes.
        path: path of the field, as the construct package writes it.
        start: byte offset of the field, for the error.

    Raises: Truncated if fewer bytes remain.
    """
    data = stream.read(size)
    if len(data) != size:
        raise Truncated(f"expected {size} bytes, found {len(data)}", path=where(path), offset=start)
    return data


def spend(context: Any, weight: int, path: str, start: int) -> None:
    """Subtract the memory that a decoded value takes from the memory budget of its message.

    Args:
        context: context of construct, which contains a Budget if the memory of the message is limited.
        weight: memory of the value, in bytes.
        path: path of the field, for the error.
        start: byte offset of the field, for the error.

    Raises: LimitError if the budget is smaller than ``weight``.
    """
    budget = context._params.get("budget")
    if budget is None:
        return
    budget.left -= weight
    if budget.left < 0:
        raise LimitError(
            f"the decoded message would exceed {budget.most} bytes of memory", path=where(path), offset=start
        )


class Budget:
    """The memory limit of one decoded message.

    Attributes:
        most: maximum memory of the message, in bytes.
        left: remaining memory, in bytes.
    """

    __slots__ = ("left", "most")

    def __init__(self, most: int) -> None:
        self.left = self.most = most


def bytes_left(stream: BinaryIO) -> int:
    """Return the number of bytes from the current position to the end of the stream."""
    here = stream.tell()
    end = stream.seek(0, io.SEEK_END)
    stream.seek(here)
    return end - here


def read_uvarint(stream: BinaryIO, path: str, start: int) -> int:
    """Read an unsigned varint of at most 5 bytes.

    Args:
        stream: stream that contains the message.
        path: path of the field, for errors.
        start: byte offset of the field, for errors.

    Raises: Truncated if the data ends too early; LimitError if the varint has more than 5 bytes or its value is above
    2^31-1.
    """
    value = 0
    for shift in range(0, 35, 7):
        byte = read(stream, 1, path, start)[0]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > MAX_VARINT:
                raise LimitError(f"varint {value} is above the limit of {MAX_VARINT}", path=where(path), offset=start)
            return value
    raise LimitError("the varint is longer than the limit of 5 bytes", path=where(path), offset=start)


def read_count(stream: BinaryIO, length: Length, smallest: int, path: str) -> int | None:
    """Read the number of elements of an array; return None for a null array.

    Args:
        stream: stream that contains the message.
        length: how the number is encoded: fixed width, or unsigned varint.
        smallest: size of the shortest possible element, in bytes.
        path: path of the array, for errors.

    Raises: Truncated if the data ends too early; LimitError if the remaining bytes cannot contain so many elements.
    """
    start = stream.tell()
    count = length._parse(stream, None, path)
    left = bytes_left(stream)
    if count is not None and count * smallest > left:
        raise LimitError(
            f"{count} elements of at least {smallest} bytes do not fit into the remaining {left} bytes",
            path=where(path),
            offset=start,
        )
    return count


def read_presence(stream: BinaryIO, tagged: bool, path: str) -> bool:
    """Read the marker before a nullable struct; return True if a struct follows, False if the struct is null.

    Args:
        stream: stream that contains the message.
        tagged: True if the struct is a tagged field, whose marker is an unsigned varint instead of a signed byte.
        path: path of the struct, for errors.
    """
    start = stream.tell()
    if tagged:
        return read_uvarint(stream, path, start) > 0
    return bool(struct.unpack("b", read(stream, 1, path, start))[0] >= 0)


def read_tag_count(stream: BinaryIO, path: str) -> int:
    """Read the number of tagged fields in a struct.

    Raises: Truncated if the data ends too early; LimitError if the remaining bytes cannot contain so many tagged
    fields.
    """
    start = stream.tell()
    count = read_uvarint(stream, path, start)
    if count * 2 > bytes_left(stream):
        raise LimitError(
            f"{count} tagged fields do not fit into the remaining {bytes_left(stream)} bytes",
            path=where(path),
            offset=start,
        )
    return count


def check_tag_size(stream: BinaryIO, size: int, path: str) -> None:
    """Check that at least ``size`` bytes remain for the value of a tagged field.

    Raises: Truncated if fewer bytes remain.
    """
    if size > bytes_left(stream):
        raise Truncated(f"expected {size} bytes, found {bytes_left(stream)}", path=where(path), offset=stream.tell())


def check_tag_end(stream: BinaryIO, tag: int, begin: int, size: int, path: str) -> None:
    """Check that the decoded value of a tagged field took exactly the announced number of bytes.

    Raises: DecodeError if the value took fewer or more bytes.

    Args:
        stream: stream, positioned after the value.
        tag: number of the tagged field.
        begin: byte offset of the value.
        size: announced size of the value, in bytes.
        path: path of the field, for the error.
    """
    consumed = stream.tell() - begin
    if consumed != size:
        raise DecodeError(
            f"tag {tag} has size {size}, but its value takes {consumed} bytes", path=where(path), offset=begin
        )


BOOLEANS = {False: False, True: True}  # accepted as booleans: these and values equal to them


class Fixed(Construct):
    """The construct of an integer, boolean or float of fixed width.

    Args:
        code: format of the value in the module ``struct``.
        expected: Python type of the value, for the error message; bool also restricts the values to True and False.
    """

    def __init__(self, code: str, expected: type) -> None:
        super().__init__()
        self.packer = struct.Struct(f">{code}")
        self.expected = expected

    def _parse(self, stream: BinaryIO, context: Any, path: str) -> Any:
        return self.packer.unpack(read(stream, self.packer.size, path, stream.tell()))[0]

    def _build(self, obj: Any, stream: BinaryIO, context: Any, path: str) -> Any:
        try:
            stream.write(self.packer.pack(BOOLEANS[obj] if self.expected is bool else obj))
        except (struct.error, OverflowError, LookupError, TypeError):
            raise EncodeError(self._type_error(obj), path=where(path)) from None
        return obj

    def _type_error(self, obj: Any) -> str:
        if not isinstance(obj, int) or self.expected is bool:
            return f"expected {self.expected.__name__}, got {type(obj).__name__}"
        return f"{_shown(obj)} does not fit into {self.packer.size} bytes"

    def _sizeof(self, context: Any, path: str) -> Any:
        return self.packer.size


def _shown(number: Any) -> str:
    return f"{number}" if number.bit_length() <= 64 else f"an integer of {number.bit_length()} bits"


class Uuid(Construct):
    """The construct of a UUID: 16 bytes on the wire, ``uuid.UUID`` in Python."""

    def _parse(self, stream: BinaryIO, context: Any, path: str) -> UUID:
        return UUID(bytes=read(stream, 16, path, stream.tell()))

    def _build(self, obj: Any, stream: BinaryIO, context: Any, path: str) -> Any:
        if not isinstance(obj, UUID):
            raise EncodeError(f"expected UUID, got {type(obj).__name__}", path=where(path))
        stream.write(obj.bytes)
        return obj

    def _sizeof(self, context: Any, path: str) -> Any:
        return 16


class Length(Construct):
    """The construct of a length or count.

    In the compact encoding, the number is an unsigned varint of the number plus 1; otherwise it is an integer of fixed
    width. A null value is None in Python.

    Args:
        code: format of the integer in the module ``struct``; None for the compact encoding.
        null: True if null is allowed.
    """

    def __init__(self, code: str | None, null: bool) -> None:
        super().__init__()
        self.packer = None if code is None else struct.Struct(f">{code}")
        self.most = MAX_TEXT if code == "h" else MAX_VARINT - 1
        self.null = null

    def _parse(self, stream: BinaryIO, context: Any, path: str) -> int | None:
        start = stream.tell()
        if self.packer is None:
            length = read_uvarint(stream, path, start) - 1
        else:
            length = self.packer.unpack(read(stream, self.packer.size, path, start))[0]
        if length >= 0:
            return length
        if not self.null:
            raise DecodeError("the field is not nullable in this version", path=where(path), offset=start)
        return None

    def _build(self, obj: int | None, stream: BinaryIO, context: Any, path: str) -> int | None:
        if obj is None and not self.null:
            raise EncodeError("the field is not nullable in this version", path=where(path))
        if obj is not None and obj > self.most:
            raise EncodeError(f"length {obj} is above the limit of {self.most}", path=where(path))
        if self.packer is None:
            stream.write(uvarint(0 if obj is None else obj + 1))
        else:
            stream.write(self.packer.pack(-1 if obj is None else obj))
        return obj


class Text(Construct):
    """The construct of a UTF-8 string: the length in bytes, then the text.

    Args:
        length: construct of the length.
    """

    def __init__(self, length: Length) -> None:
        super().__init__()
        self.length = length

    def _parse(self, stream: BinaryIO, context: Any, path: str) -> str | None:
        start = stream.tell()
        size = self.length._parse(stream, context, path)
        if size is None:
            return None
        if size > MAX_TEXT:
            raise LimitError(
                f"a string of {size} bytes is above the limit of {MAX_TEXT}", path=where(path), offset=start
            )
        return read(stream, size, path, start).decode("utf-8", "surrogateescape")

    def _build(self, obj: Any, stream: BinaryIO, context: Any, path: str) -> Any:
        if obj is None:
            self.length._build(None, stream, context, path)
            return obj
        if not hasattr(obj, "encode"):
            raise EncodeError(f"expected str, got {type(obj).__name__}", path=where(path))
        try:
            data: bytes = obj.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError as error:
            raise EncodeError(f"cannot be encoded as UTF-8: {error.reason}", path=where(path)) from None
        if len(data) > MAX_TEXT:
            raise EncodeError(f"a string of {len(data)} bytes is above the limit of {MAX_TEXT}", path=where(path))
        self.length._build(len(data), stream, context, path)
        stream.write(data)
        return obj


class Blob(Construct):
    """The construct of bytes: the length, then the content.

    A records field is read as bytes too, without decoding its batches.

    Args:
        length: construct of the length.
    """

    def __init__(self, length: Length) -> None:
        super().__init__()
        self.length = length

    def _parse(self, stream: BinaryIO, context: Any, path: str) -> bytes | None:
        start = stream.tell()
        size = self.length._parse(stream, context, path)
        return None if size is None else read(stream, size, path, start)

    def _build(self, obj: Any, stream: BinaryIO, context: Any, path: str) -> Any:
        if obj is None:
            self.length._build(None, stream, context, path)
            return obj
        if not isinstance(obj, (bytes, bytearray, memoryview)):
            raise EncodeError(f"expected bytes, got {type(obj).__name__}", path=where(path))
        data = bytes(obj)
        self.length._build(len(data), stream, context, path)
        stream.write(data)
        return obj


class Counted(Construct):
    """The construct of an array: the count, then the elements.

    If the remaining bytes cannot contain that many elements, parsing raises LimitError before the first element is
    read.

    Args:
        element: construct of an element.
        length: construct of the count.
        smallest: minimum size of an encoded element, in bytes.
        weight: minimum memory of a decoded element, in bytes.
    """

    def __init__(self, element: Construct, length: Length, smallest: int, weight: int) -> None:
        super().__init__()
        self.element = element
        self.length = length
        self.smallest = smallest
        self.weight = weight

    def _parse(self, stream: BinaryIO, context: Any, path: str) -> list[Any] | None:
        start = stream.tell()
        count = read_count(stream, self.length, self.smallest, path)
        if count is None:
            return None
        spend(context, count * self.weight, path, start)
        return [self.element._parsereport(stream, context, f"{path} -> [{index}]") for index in range(count)]

    def _build(self, obj: Any, stream: BinaryIO, context: Any, path: str) -> Any:
        if obj is None:
            self.length._build(None, stream, context, path)
            return obj
        if not isinstance(obj, (list, tuple)):
            raise EncodeError(f"expected list, got {type(obj).__name__}", path=where(path))
        self.length._build(len(obj), stream, context, path)
        for index, element in enumerate(obj):
            self.element._build(element, stream, context, f"{path} -> [{index}]")
        return obj


class Maybe(Construct):
    """The construct of a nullable struct: a marker, then the struct if it is not null.

    Args:
        record: construct of the struct.
        tagged: True if the struct is a tagged field; then the marker is different.
        weight: minimum memory of the decoded struct, in bytes.
    """

    def __init__(self, record: Construct, tagged: bool, weight: int) -> None:
        super().__init__()
        self.record = record
        self.tagged = tagged
        self.weight = weight

    def _parse(self, stream: BinaryIO, context: Any, path: str) -> Any:
        start = stream.tell()
        if not read_presence(stream, self.tagged, path):
            return None
        spend(context, self.weight, path, start)
        return self.record._parsereport(stream, context, path)

    def _build(self, obj: Any, stream: BinaryIO, context: Any, path: str) -> Any:
        absent, present = (b"\x00", b"\x01") if self.tagged else (b"\xff", b"\x01")
        stream.write(absent if obj is None else present)
        if obj is not None:
            self.record._build(obj, stream, context, path)
        return obj


class Tagged(Construct):
    """The construct of the tagged section at the end of a struct in a flexible version.

    The decoded value is a pair: values of known fields by name, and bytes of unknown fields by tag.

    Args:
        known: name and construct of each declared field, by tag.
    """

    def __init__(self, known: Mapping[int, tuple[str, Construct]]) -> None:
        super().__init__()
        self.known = dict(known)

    def _parse(self, stream: BinaryIO, context: Any, path: str) -> tuple[dict[str, Any], dict[int, bytes]]:
        values: dict[str, Any] = {}
        unknown: dict[int, bytes] = {}
        for _ in range(read_tag_count(stream, path)):
            start = stream.tell()
            tag = read_uvarint(stream, path, start)
            size = read_uvarint(stream, path, start)
            if tag not in self.known:
                unknown[tag] = read(stream, size, path, start)
                spend(context, TAG_WEIGHT, path, start)
                continue
            name, form = self.known[tag]
            begin = stream.tell()
            here = f"{path} -> {name}"
            check_tag_size(stream, size, here)
            values[name] = form._parsereport(stream, context, here)
            check_tag_end(stream, tag, begin, size, here)
        return values, unknown

    def _build(self, obj: Any, stream: BinaryIO, context: Any, path: str) -> Any:
        values, unknown = obj
        fields: dict[int, bytes] = {}
        if not isinstance(unknown, Mapping):
            raise EncodeError(f"expected a mapping of tags to bytes, got {type(unknown).__name__}", path=where(path))
        for tag, content in unknown.items():
            if not isinstance(content, (bytes, bytearray, memoryview)):
                raise EncodeError(f"tag {tag!r}: expected bytes, got {type(content).__name__}", path=where(path))
            if not isinstance(tag, int) or not 0 <= tag <= MAX_VARINT:
                raise EncodeError(f"expected a tag from 0 to {MAX_VARINT}, got {tag!r}", path=where(path))
            if tag in self.known:
                name, _ = self.known[tag]
                raise EncodeError(f"tag {tag} belongs to the field {name!r}: set that field instead", path=where(path))
            fields[tag] = bytes(content)
        for tag, (name, form) in self.known.items():
            if name in values:
                out = io.BytesIO()
                form._build(values[name], out, context, f"{path} -> {name}")
                fields[tag] = out.getvalue()
        stream.write(uvarint(len(fields)))
        for tag in sorted(fields):
            stream.write(uvarint(tag) + uvarint(len(fields[tag])) + fields[tag])
        return obj
