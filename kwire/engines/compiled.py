"""The compiled engine: it translates a Layout into Python source and then into functions. They are fast and keep no
error context.

A function that decodes (reader) or encodes (writer) is generated when a version of a message is first decoded or
encoded, and cached. Readers and writers only accept or reject their input. To find the reason of a rejection,
``kwire.codec`` repeats the work with the reference engine.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Generator
from functools import cache
from typing import Any

from kwire.engines import reader, writer
from kwire.engines.generated import ReaderOptions, WriterOptions, run
from kwire.errors import DecodeError, LimitError, SchemaError, Truncated
from kwire.layout import heaviest, resolve
from kwire.limits import HEAVIEST
from kwire.schema import schema_of

FINAL = SchemaError  # a refusal that is complete without the reference engine
REFUSALS = (ValueError, TypeError, AttributeError, LookupError, OverflowError, struct.error)

ORIGINS = """\
# Globals: all of kwire/engines/runtime.py, struct.Struct, new = object.__new__, repeat, NO_TAGS = {}, NO_LIMIT = 2**62,
# ZERO_UUID, and unpackers and packers: cached instances of Unpackers and Packers. Names with an underscore are struct
# classes of the message and their defaults.
"""

Reader = Callable[[bytes, int], tuple[Any, int]]
Writer = Callable[[Any], bytes]

PLAIN, ESCAPED = ReaderOptions(), ReaderOptions(escaped=True)
WEIGHED, WEIGHED_ESCAPED = ReaderOptions(weighed=True), ReaderOptions(weighed=True, escaped=True)
SLICED, SLICED_ESCAPED = (ReaderOptions(weighed=True, escaped=escaped, sliced=True) for escaped in (False, True))

POSITION = r"p\d*|pos"  # variables of readers with an offset of the data; offsets only grow

# Functions in use: readers without a memory limit, and writers.
readers: dict[type, dict[int, Reader]] = {}
writers: dict[type, dict[int, Writer]] = {}


def decode(message: type, data: bytes, offset: int, version: int, weight: int) -> tuple[Any, int]:
    """Decode a message, and return the message and the offset after its last byte.

    Raises: one of REFUSALS, without error context.

    Args:
        message: class of the message.
        data: bytes that contain the message.
        offset: offset of the first byte of the message in ``data``.
        version: version of the message.
        weight: maximum memory of the decoded message, in bytes (see ``kwire.limits``).
    """
    if (len(data) - offset) * HEAVIEST > weight:
        return _decode_weighed(message, data, offset, version, weight)
    try:
        read = readers[message][version]
    except KeyError:
        if heaviest(resolve(message, version)) > HEAVIEST:  # no message of Kafka itself
            return _decode_weighed(message, data, offset, version, weight)
        read = readers.setdefault(message, {})[version] = reader_of(message, version, PLAIN)
    try:
        return read(data, offset)
    except UnicodeDecodeError:
        return reader_of(message, version, ESCAPED)(data, offset)


def _decode_weighed(message: type, data: bytes, offset: int, version: int, weight: int) -> tuple[Any, int]:
    try:
        return reader_of(message, version, WEIGHED)(data, offset, weight)
    except UnicodeDecodeError:
        return reader_of(message, version, WEIGHED_ESCAPED)(data, offset, weight)


def decode_in_slices(
    message: type, data: bytes, offset: int, version: int, weight: int, size: int
) -> Generator[None, None, tuple[Any, int]]:
    """Decode a message; yield after every ``size`` array elements, so that the caller can do other work. Copied bytes
    also count as elements (``limits.COPIED_LIKE_AN_ELEMENT``).

    The generator finally returns the result of ``decode``. All arguments except ``size`` are those of ``decode``.
    Raises: one of REFUSALS, without error context.
    """
    try:
        return (yield from _steps(message, version, SLICED)(data, offset, weight, size))
    except UnicodeDecodeError:
        return (yield from _steps(message, version, SLICED_ESCAPED)(data, offset, weight, size))


def _steps(
    message: type, version: int, options: ReaderOptions
) -> Callable[..., Generator[None, None, tuple[Any, int]]]:
    read: Callable[..., Any] = reader_of(message, version, options)
    return read


def rough_error(message: type, version: int, size: int, refusal: BaseException) -> DecodeError:
    """Return the DecodeError for an invalid message that is too large for the reference engine to decode it again.

    The error has no field path; its offset is the position that the reader had reached.

    Args:
        message: class of the message.
        version: version of the message.
        size: length of the data in bytes.
        refusal: exception of the reader, whose traceback contains the offset.
    """
    at, left, trace = 0, 0, refusal.__traceback__
    while trace is not None:
        found = trace.tb_frame.f_locals
        at = max([at, *(found[name] for name in found if re.fullmatch(POSITION, name))])
        left = found.get("left", left)
        trace = trace.tb_next
    kind, reason = DecodeError, "invalid data near this offset"
    if left < 0:
        kind, reason = LimitError, "the decoded message would exceed its memory limit"
    elif at > size or isinstance(refusal, (struct.error, IndexError)):
        kind, reason = Truncated, "the data ends before the message does"
    return kind(reason, offset=min(at, size), message=schema_of(message).name, version=version)


def encode(value: Any, version: int) -> bytes:
    """Return the bytes of a message in a version. Raises: one of REFUSALS, without error context."""
    message = value.__class__
    try:
        write = writers[message][version]
    except KeyError:
        write = writers.setdefault(message, {})[version] = writer_of(message, version, WriterOptions())
    try:
        return write(value)
    except (UnicodeEncodeError, IndexError):
        careful: Writer = writer_of(message, version, WriterOptions(careful=True))
        return careful(value)


def encode_in_slices(value: Any, version: int, size: int) -> Generator[None, None, bytes]:
    """Encode a message; yield after every ``size`` array elements, so that the caller can do other work.

    The generator finally returns the encoded bytes. Raises: one of REFUSALS, without error context. It also raises
    UnicodeEncodeError or IndexError for some texts that ``encode`` accepts (see ``WriterOptions.careful``).
    """
    write = writer_of(value.__class__, version, WriterOptions(sliced=True))
    encoded: bytes = yield from write(value, size)
    return encoded


@cache
def reader_of(message: type, version: int, options: ReaderOptions) -> Callable[..., tuple[Any, int]]:
    """Return the generated reader of one version of a message: a function ``(data, offset) -> (message, end offset)``.

    With the option ``weighed``, the function has a third argument: the maximum memory of the message in bytes. With the
    option ``sliced``, it is a generator with one more argument: the number of array elements between two yields.

    Raises: SchemaError if the message does not have the version.
    """
    source, names = reader.reader_source(_title(message, version), resolve(message, version), options)
    function: Callable[..., tuple[Any, int]] = run(source, names)["read"]
    return function


@cache
def writer_of(message: type, version: int, options: WriterOptions) -> Callable[..., Any]:
    """Return the generated writer of one version of a message: a function that gets the message and returns its bytes.

    With the option ``sliced``, the function is a generator that finally returns the bytes. Its second argument is the
    number of array elements between two yields.

    Raises: SchemaError if the message does not have the version.
    """
    source, names = writer.writer_source(_title(message, version), resolve(message, version), options)
    function: Callable[..., Any] = run(source, names)["write"]
    return function


def source(message: type, version: int) -> str:
    """Return the Python source of the generated reader and writer of one version.

    Raises: SchemaError if the message does not have the version.
    """
    layout = resolve(message, version)
    title = _title(message, version)
    read, _ = reader.reader_source(title, layout, PLAIN)
    write, _ = writer.writer_source(title, layout, WriterOptions())
    return f"{ORIGINS}\n{read}\n{write}"


def _title(message: type, version: int) -> str:
    return f"{schema_of(message).name} v{version}"
