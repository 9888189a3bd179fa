"""The native engine: the package ``kwire-native``, an interpreter in Rust that decodes and encodes any message.

``reader_of`` and ``writer_of`` pass the layout of a message version to the package once, as a table of nested tuples.
The functions that they return have the same results as the functions of the compiled engine. The package contains no
list of messages, so that it needs no change for a new API. Like the compiled engine, the native engine only accepts or
rejects its input.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

from kwire.engines import compiled
from kwire.engines.generated import missing
from kwire.engines.runtime import NativeRefused
from kwire.errors import DecodeError, LimitError, Truncated
from kwire.layout import Blob, Fixed, List, Maybe, Node, Record, Text, element_weight, resolve, smallest, weight
from kwire.limits import MAX_WEIGHT
from kwire.schema import Field, compares_by_fields, schema_of

TABLES = 9  # form of the tables that this module makes, and of the functions that kwire calls
INVALID, TRUNCATED, TOO_HEAVY = range(3)  # first argument of NativeRefused

# Functions in use, by message and version.
readers: dict[type, dict[int, compiled.Reader]] = {}
writers: dict[type, dict[int, compiled.Writer]] = {}


@cache
def package() -> Any:
    """Return the module ``kwire_native``; None if it is not installed, or cannot be used (see ``mismatch``)."""
    module = _installed()
    return None if module is None or mismatch() else module


@cache
def mismatch() -> str:
    """Return why an installed module ``kwire_native`` cannot be used, with the remedy; "" if it can, or is missing."""
    module = _installed()
    form = TABLES if module is None else getattr(module, "TABLES", None)
    if form == TABLES:
        return ""
    version = getattr(module, "VERSION", "without version")
    return (
        f"the installed kwire-native {version} has interface {form}, but this kwire needs interface {TABLES}: "
        "build it again with make native, or install the kwire-native of the same release"
    )


def _installed() -> Any:
    try:
        return import_module("kwire_native")
    except ImportError:
        return None


def decode(message: type, data: bytes, offset: int, version: int, weight: int) -> tuple[Any, int]:
    """Decode a message, and return the message and the offset after its last byte.

    Raises: one of compiled.REFUSALS, without error context.

    Args:
        message: class of the message.
        data: bytes that contain the message.
        offset: offset of the first byte of the message in ``data``.
        version: version of the message.
        weight: maximum memory of the decoded message, in bytes (see ``kwire.limits``).
    """
    try:
        read: Any = readers[message][version]
    except KeyError:
        read = readers.setdefault(message, {})[version] = reader_of(message, version)
    result: tuple[Any, int] = read(data, offset, weight)
    return result


def encode(value: Any, version: int) -> bytes:
    """Return the bytes of a message in a version. Raises: one of compiled.REFUSALS, without error context."""
    message = value.__class__
    try:
        write = writers[message][version]
    except KeyError:
        write = writers.setdefault(message, {})[version] = writer_of(message, version)
    return write(value)


def reader_of(message: type, version: int) -> Callable[..., tuple[Any, int]]:
    """Return the reader of one version of a message: a function ``(data, offset, weight) -> (message, end offset)``.

    If the reader is called without ``weight``, the memory of the message is not limited.

    Raises: SchemaError if the message does not have the version.
    """
    read: Callable[..., tuple[Any, int]] = walker(message, version).read
    return read


def writer_of(message: type, version: int) -> Callable[[Any], bytes]:
    """Return the writer of one version of a message: a function that gets the message and returns its bytes.

    Raises: SchemaError if the message does not have the version.
    """
    write: Callable[[Any], bytes] = walker(message, version).write
    return write


@cache
def walker(message: type, version: int) -> Any:
    """Return the object that decodes and encodes one version of a message.

    It is a ``kwire_native.Message``, or calls the compiled engine if kwire-native does not accept the class.

    Raises: SchemaError if the message does not have the version.
    """
    layout = resolve(message, version)
    try:
        return package().Message(table(layout))
    except TypeError:
        return _Compiled(message, version)


class _Compiled:
    """The substitute for the native reader and writer of a message: it calls the compiled engine.

    The substitute is used for a message class that overrides slots or attribute access, because kwire-native does not
    accept such classes.

    Args:
        message: class of the message.
        version: version of the message.
    """

    def __init__(self, message: type, version: int) -> None:
        self.message, self.version = message, version

    def read(self, data: bytes, offset: int, left: int = MAX_WEIGHT) -> tuple[Any, int]:
        return compiled.decode(self.message, data, offset, self.version, left)

    def write(self, value: Any) -> bytes:
        return compiled.encode(value, self.version)


def rough_error(message: type, version: int, size: int, refusal: BaseException) -> DecodeError:
    """Return the DecodeError for an invalid message that is too large for the reference engine to decode it again.

    The error has no field path. Its offset is the position at which the reader stopped, or the end of the data if that
    position is unknown or the data ends too early.

    Args:
        message: class of the message.
        version: version of the message.
        size: length of the data in bytes.
        refusal: exception of the reader.
    """
    what, at = refusal.args if isinstance(refusal, NativeRefused) else (INVALID, size)
    kind, reason = DecodeError, "invalid data near this offset"
    if what == TRUNCATED:
        kind, reason, at = Truncated, "the data ends before the message does", size
    elif what == TOO_HEAVY:
        kind, reason = LimitError, "the decoded message would exceed its memory limit"
    return kind(reason, offset=at, message=schema_of(message).name, version=version)


def table(node: Node) -> tuple[Any, ...]:
    """Return a layout as a table for the package kwire-native.

    The table consists of nested tuples. The tuple of a layout node begins with its kind: ``text``, ``bytes``,
    ``array``, ``maybe``, ``struct``, or the wire type of a Fixed.
    """
    match node:
        case Fixed(wire):
            return (wire,)
        case Text(compact, null):
            return ("text", compact, null)
        case Blob(compact, null):
            return ("bytes", compact, null)
        case List(element, compact, null):
            return ("array", table(element), compact, null, smallest(element), element_weight(node))
        case Maybe(record, tagged):
            return ("maybe", table(record), tagged, weight(record))
        case Record(cls, slots, flexible, tagged, absent):
            names = _names(cls)
            number = {name: place for place, name in enumerate(names)}
            return (
                "struct",
                cls,
                names,
                [(number[slot.name], table(slot.node)) for slot in slots],
                flexible,
                [(number[slot.name], slot.tag, table(slot.node), _initial(slot.field)) for slot in tagged],
                [(number[name], _initial(field)) for name, field in missing(node)],
                [(number[slot.name], _initial(slot.field)) for slot in absent],
            )


def _names(cls: type) -> list[str]:
    """Return the names of a struct's slots. Raises: TypeError if the class overrides attribute access."""
    access: Any = cls
    if access.__setattr__ is not object.__setattr__ or access.__getattribute__ is not object.__getattribute__:
        raise TypeError(f"{cls.__name__} overrides __getattribute__ or __setattr__")
    return [*schema_of(cls).fields, "unknown_tags"]


def _initial(field: Field) -> tuple[Any, ...]:
    """Return a field's default as a tuple for the package kwire-native.

    The tuple describes an object that all messages share, a new empty list, or a new struct.
    """
    value = field.initial()
    if not field.is_fresh:
        return ("shared", value)
    if field.kind == "array":
        return ("list", value)
    inside = [_initial(inner) for inner in schema_of(type(value)).fields.values()]
    return ("struct", value, _names(type(value)), [*inside, ("shared", None)], compares_by_fields(type(value)))
