"""From (message, version) to a tree without any version in it.

Everything that handles bytes or values of a message is one ``match`` over these six kinds: the engines, the JSON form,
the text below. No ``if version`` is left behind this file. A layout is plain data.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from kwire.errors import SchemaError
from kwire.schema import NO_VERSIONS, Field, Schema, Versions, schema_of


@dataclass(frozen=True, slots=True)
class Fixed:
    """A value of fixed width: ``wire`` is one of the keys of WIDTHS."""

    wire: str


@dataclass(frozen=True, slots=True)
class Text:
    """A UTF-8 string behind its length: int16, or an unsigned varint of length + 1 if compact."""

    compact: bool
    null: bool


@dataclass(frozen=True, slots=True)
class Blob:
    """Bytes behind their length: int32, or an unsigned varint of length + 1 if compact."""

    compact: bool
    null: bool
    records: bool = False


@dataclass(frozen=True, slots=True)
class List:
    """Elements behind their count: int32, or an unsigned varint of count + 1 if compact."""

    element: Node
    compact: bool
    null: bool


@dataclass(frozen=True, slots=True)
class Maybe:
    """A struct that may be null, behind a marker: a signed byte (-1 null, 1 there), or an unsigned varint
    (0 null, 1 there) if it is a tagged field."""

    record: Record
    tagged: bool


@dataclass(frozen=True, slots=True)
class Slot:
    """A field of a record: the attribute, its form, its default, and its tag if it stands in the tagged section."""

    name: str
    node: Node
    field: Field
    tag: int | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """A struct: fields in wire order, then the tagged section if ``flexible``.

    ``absent``: fields this version cannot carry and that must therefore have their default when written.
    """

    type: type
    slots: tuple[Slot, ...]
    flexible: bool
    tagged: tuple[Slot, ...] = ()
    absent: tuple[Slot, ...] = ()


Node: TypeAlias = Fixed | Text | Blob | List | Maybe | Record

WIDTHS = {
    "bool": 1,
    "int8": 1,
    "int16": 2,
    "uint16": 2,
    "int32": 4,
    "uint32": 4,
    "int64": 8,
    "float64": 8,
    "uuid": 16,
}


_resolved: dict[tuple[type, int], Record] = {}


def resolve(message: type, version: int) -> Record:
    """The layout of a message in one version; kept once made. Raises: SchemaError if there is no such version."""
    if type(version) is not int:
        raise SchemaError(f"a version is an int, not {version!r}")
    if (message, version) not in _resolved:
        _resolved[message, version] = _resolve(message, version)
    return _resolved[message, version]


def _resolve(message: type, version: int) -> Record:
    schema = schema_of(message)
    if schema.versions is None or schema.flexible is None:
        raise SchemaError(f"{schema.name} is a struct inside messages and has no versions of its own")
    if version not in schema.versions:
        raise SchemaError(f"{schema.name} has versions {schema.versions}, not {version}")
    return _record(message, schema, version, version in schema.flexible)


def _record(type_: type, schema: Schema, version: int, flexible: bool) -> Record:
    slots: list[Slot] = []
    tagged: list[Slot] = []
    absent: list[Slot] = []
    for name, field in schema.fields.items():
        node = _node(field, version, flexible)
        if version not in field.versions:
            if not field.ignorable:
                absent.append(Slot(name, node, field))
        elif field.tag is not None and flexible:
            tagged.append(Slot(name, node, field, field.tag))
        else:
            slots.append(Slot(name, node, field))
    tagged.sort(key=lambda slot: slot.tag or 0)
    return Record(type_, tuple(slots), flexible, tuple(tagged), tuple(absent))


def _node(field: Field, version: int, flexible: bool) -> Node:
    compact = flexible if field.flexible is None else version in field.flexible
    null = version in field.null
    match field.kind:
        case "string":
            return Text(compact, null)
        case "bytes" | "records":
            return Blob(compact, null, records=field.kind == "records")
        case "array":
            assert field.of is not None
            return List(_node(field.of, version, flexible), compact, null)
        case "struct":
            assert field.struct is not None
            record = _record(field.struct, schema_of(field.struct), version, flexible)
            return Maybe(record, tagged=field.tag is not None) if null else record
        case wire:
            return Fixed(wire)


def smallest(node: Node) -> int:
    """Bytes that the shortest value of this form takes: what an element count can be checked against."""
    match node:
        case Fixed(wire):
            return WIDTHS[wire]
        case Text(compact):
            return 1 if compact else 2
        case Blob(compact) | List(_, compact):
            return 1 if compact else 4
        case Maybe():
            return 1
        case Record(_, slots, flexible):
            return sum(smallest(slot.node) for slot in slots) + int(flexible)


def text(message: type, version: int) -> str:
    """The wire layout of one version, one line a field, nested by indentation."""
    header = f"{schema_of(message).name} v{version}"
    return "\n".join([header, *_lines(resolve(message, version), "  ")])


def form(node: Node) -> str:
    """Kafka's word for a form, such as ``compact_nullable_string``."""
    match node:
        case Fixed(wire):
            return wire
        case Text(compact, null):
            return f"{_prefix(compact, null)}string"
        case Blob(compact, null, records):
            return f"{_prefix(compact, null)}{'records' if records else 'bytes'}"
        case List(element, compact, null):
            return f"{_prefix(compact, null)}array of {'struct' if isinstance(element, Record) else form(element)}"
        case Maybe():
            return "nullable_struct"
        case Record():
            return "struct"


def _prefix(compact: bool, null: bool) -> str:
    return f"{'compact_' if compact else ''}{'nullable_' if null else ''}"


def _lines(record: Record, indent: str) -> Iterator[str]:
    for slot in (*record.slots, *record.tagged):
        tag = "" if slot.tag is None else f"  [tag {slot.tag}]"
        yield f"{indent}{slot.name}: {form(slot.node)}{tag}"
        match slot.node:
            case (Record() as inner) | Maybe(inner) | List(Record() as inner):
                yield from _lines(inner, indent + "  ")
            case _:
                pass
    if record.flexible:
        yield f"{indent}(tagged fields)"


def zero_sized(message: type) -> bool:
    """True if some array of this message has elements that take no bytes; such a count would be unbounded."""

    def unsafe(node: Node) -> bool:
        match node:
            case List(element):
                return smallest(element) == 0 or unsafe(element)
            case Maybe(record):
                return unsafe(record)
            case Record(_, slots, _, tagged):
                return any(unsafe(slot.node) for slot in (*slots, *tagged))
            case _:
                return False

    versions = schema_of(message).versions or NO_VERSIONS
    return any(unsafe(resolve(message, version)) for version in versions_of(versions))


def versions_of(versions: Versions) -> range:
    """The versions of a closed range."""
    assert versions.last is not None, "a message has a newest version"
    return range(versions.first, versions.last + 1)
