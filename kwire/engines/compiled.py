"""Layout -> Python source -> functions: fast, without error context.

A reader and a writer are generated when a version of a message is first read or written, and kept. They only accept or
refuse; why something is refused is for the reference engine to say, which ``codec`` asks.
"""

from __future__ import annotations

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

FINAL = SchemaError  # a refusal that needs no explanation
REFUSALS = (ValueError, TypeError, AttributeError, LookupError, OverflowError, struct.error)

ORIGINS = """\
# Runs with what kwire/engines/runtime.py has, struct.Struct, new = object.__new__, NO_TAGS = {}, NO_LIMIT = 2**62,
# ZERO_UUID, and unpackers and packers: Unpackers and Packers, one for all who ask for the same. Names with an
# underscore are struct classes of the message, defaults of theirs, and _shapes_X, the loops for rows (shapes.py).
"""

Reader = Callable[[bytes, int], tuple[Any, int]]
Writer = Callable[[Any], bytes]

PLAIN, ESCAPED = ReaderOptions(), ReaderOptions(escaped=True)
WEIGHED, WEIGHED_ESCAPED = ReaderOptions(weighed=True), ReaderOptions(weighed=True, escaped=True)

# What was used so far: readers of messages that need no weighing, and writers.
readers: dict[type, dict[int, Reader]] = {}
writers: dict[type, dict[int, Writer]] = {}


def decode(message: type, data: bytes, offset: int, version: int, weight: int) -> tuple[Any, int]:
    """The message that begins at ``offset``, and the offset behind it. Raises: one of REFUSALS.

    ``weight``: what it may weigh (see limits).
    """
    if (len(data) - offset) * HEAVIEST > weight:
        return _decode_weighed(message, data, offset, version, weight)
    try:
        read = readers[message][version]
    except KeyError:
        if heaviest(resolve(message, version)) > HEAVIEST:  # none of Kafka's own
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


def rough_error(message: type, version: int, size: int, refusal: BaseException) -> DecodeError:
    """What a refusal says by itself of where and why, without reading all of it again: what the reader had come to.

    ``size``: bytes there are.
    """
    at, left, trace = 0, 0, refusal.__traceback__
    while trace is not None:
        at = trace.tb_frame.f_locals.get("pos", at)
        left = trace.tb_frame.f_locals.get("left", left)
        trace = trace.tb_next
    kind, reason = DecodeError, "cannot be read further than about here"
    if left < 0:
        kind, reason = LimitError, "would take too many bytes of memory from here on"
    elif at > size or isinstance(refusal, (struct.error, IndexError)):
        kind, reason = Truncated, "the bytes end before the message does"
    return kind(reason, offset=min(at, size), message=schema_of(message).name, version=version)


def encode(value: Any, version: int) -> bytes:
    """The bytes of a message in this version. Raises: one of REFUSALS."""
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
    """The same, with a stop after so many elements of arrays. Raises: one of REFUSALS."""
    write = writer_of(value.__class__, version, WriterOptions(sliced=True))
    encoded: bytes = yield from write(value, size)
    return encoded


@cache
def reader_of(message: type, version: int, options: ReaderOptions) -> Callable[..., tuple[Any, int]]:
    """The function that reads one version. Raises: SchemaError if there is no such version."""
    source, names = reader.reader_source(_title(message, version), resolve(message, version), options)
    found: Callable[..., tuple[Any, int]] = run(source, names)["read"]
    return found


@cache
def writer_of(message: type, version: int, options: WriterOptions) -> Callable[..., Any]:
    """The function that writes one version. Raises: SchemaError if there is no such version."""
    source, names = writer.writer_source(_title(message, version), resolve(message, version), options)
    found: Callable[..., Any] = run(source, names)["write"]
    return found


def source(message: type, version: int) -> str:
    """What is generated for one version: its reader, its writer. Raises: SchemaError if there is no such version."""
    layout = resolve(message, version)
    title = _title(message, version)
    read, _ = reader.reader_source(title, layout, PLAIN)
    write, _ = writer.writer_source(title, layout, WriterOptions())
    return f"{ORIGINS}\n{read}\n{write}"


def _title(message: type, version: int) -> str:
    return f"{schema_of(message).name} v{version}"
