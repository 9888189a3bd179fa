"""The wire layout of one message version: a tree of six kinds of nodes. The tree contains no version conditions.

Each engine, the JSON form and the output of ``kwire layout`` is one ``match`` over these kinds. Only this module
compares versions. A layout is plain data.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from kwire.errors import SchemaError
from kwire.lazy_dataclass import dataclass
from kwire.limits import MAX_NESTING, TAG_WEIGHT
from kwire.schema import Field, Schema, Versions, schema_of


@dataclass(frozen=True, slots=True)
class Fixed:
    """The layout of a value of fixed width: an integer, float, boolean or UUID.

    Attributes:
        wire: wire type, a key of WIDTHS.
    """

    wire: str


@dataclass(frozen=True, slots=True)
class Text:
    """The layout of a UTF-8 string: its length, then its bytes.

    The length is an int16; in the compact encoding it is an unsigned varint of length + 1.

    Attributes:
        compact: True for the compact encoding.
        null: True if null is allowed.
    """

    compact: bool
    null: bool


@dataclass(frozen=True, slots=True)
class Blob:
    """The layout of a bytes field: its length, then its content.

    The length is an int32; in the compact encoding it is an unsigned varint of length + 1.

    Attributes:
        compact: True for the compact encoding.
        null: True if null is allowed.
        records: True if the content is records (batches or messages).
    """

    compact: bool
    null: bool
    records: bool = False


@dataclass(frozen=True, slots=True)
class List:
    """The layout of an array: the number of elements, then the elements.

    The number is an int32; in the compact encoding it is an unsigned varint of number + 1.

    Attributes:
        element: layout of an element.
        compact: True for the compact encoding.
        null: True if null is allowed.
    """

    element: Node
    compact: bool
    null: bool


@dataclass(frozen=True, slots=True)
class Maybe:
    """The layout of a nullable struct: a marker, then the struct if it is not null.

    The marker is a signed byte: -1 for null, 1 for a struct. In a tagged field, the marker is an unsigned varint: 0 for
    null, 1 for a struct.

    Attributes:
        record: layout of the struct.
        tagged: True if the struct is a tagged field.
    """

    record: Record
    tagged: bool


@dataclass(frozen=True, slots=True)
class Slot:
    """The layout of one field of a struct.

    Attributes:
        name: name of the attribute in the message class.
        node: layout of the value.
        field: declaration of the field, with the default.
        tag: tag number of a field in the tagged section; None for a field outside the tagged section.
    """

    name: str
    node: Node
    field: Field
    tag: int | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """The layout of a struct: fields in wire order, then the tagged section if the version is flexible.

    Attributes:
        type: class of the struct.
        slots: fields outside the tagged section.
        flexible: True if the struct ends with a tagged section.
        tagged: fields in the tagged section, in ascending order of their tags.
        absent: fields that this version lacks, except ignorable fields. Encoding raises an error unless the absent
            fields have their default values.
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
    """Return the layout of a message in one version. The layout is cached.

    Raises: SchemaError if the message does not have this version.
    """
    if not isinstance(version, (int, float)) or version != int(version):
        raise SchemaError(f"version must be an integer, got {version!r}")
    version = int(version)
    if (message, version) not in _resolved:
        _resolved[message, version] = _resolve(message, version)
    return _resolved[message, version]


def _resolve(message: type, version: int) -> Record:
    schema = schema_of(message)
    if schema.versions is None or schema.flexible is None:
        raise SchemaError(f"{schema.name} is a struct inside messages and has no versions of its own")
    if version not in schema.versions:
        raise SchemaError(f"{schema.name} has no version {version}: its versions are {schema.versions}")
    return _record(message, schema, version, version in schema.flexible)


def _record(type_: type, schema: Schema, version: int, flexible: bool, depth: int = 1) -> Record:
    if depth > MAX_NESTING:
        raise SchemaError(f"{schema.name} is nested deeper than {MAX_NESTING} structs")
    slots: list[Slot] = []
    tagged: list[Slot] = []
    absent: list[Slot] = []
    for name, field in schema.fields.items():
        node = _node(field, version, flexible, depth)
        if version not in field.versions:
            if not field.ignorable:
                absent.append(Slot(name, node, field))
        elif field.tag is not None and flexible:
            tagged.append(Slot(name, node, field, field.tag))
        else:
            slots.append(Slot(name, node, field))
    tagged.sort(key=lambda slot: slot.tag or 0)
    return Record(type_, tuple(slots), flexible, tuple(tagged), tuple(absent))


def _node(field: Field, version: int, flexible: bool, depth: int) -> Node:
    compact = flexible if field.flexible is None else version in field.flexible
    null = version in field.null
    match field.kind:
        case "string":
            return Text(compact, null)
        case "bytes" | "records":
            return Blob(compact, null, records=field.kind == "records")
        case "array":
            assert field.of is not None
            element = _node(field.of, version, flexible, depth)
            if smallest(element) == 0:
                kind = getattr(field.of.struct, "__name__", field.of.kind)
                raise SchemaError(
                    f"array elements of type {kind} have size 0: an array needs elements of at least 1 byte"
                )
            return List(element, compact, null)
        case "struct":
            assert field.struct is not None
            record = _record(field.struct, schema_of(field.struct), version, flexible, depth + 1)
            return Maybe(record, tagged=field.tag is not None) if null else record
        case wire:
            return Fixed(wire)


def smallest(node: Node) -> int:
    """Return the size, in bytes, of the shortest possible encoding of a value with this layout.

    The count of an array is checked with the size of its shortest element: the remaining bytes must be able to contain
    all elements.
    """
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


# Bytes that decoded values take in CPython (64 bit): a struct object, a slot, a list, an element in it, fixed values.
_OBJECT, _SLOT, _LIST, _PLACE = 32, 8, 56, 9
_VALUES = {"bool": 0, "float64": 24, "uuid": 128}
_NUMBER = 32


def weight(node: Node) -> int:
    """Return the minimum memory, in bytes, of a decoded value with this layout. The content of strings and bytes is
    excluded.

    ``kwire.limits`` explains how the memory of a decoded message is limited.
    """
    match node:
        case Fixed(wire):
            return _VALUES.get(wire, _NUMBER)
        case Text() | Blob() | Maybe():
            return 0
        case List():
            return _LIST
        case Record(cls, slots):
            carried = {slot.name for slot in slots}
            fields = schema_of(cls).fields
            inside = sum(weight(slot.node) for slot in slots)
            inside += sum(_initial_weight(field) for name, field in fields.items() if name not in carried)
            return _OBJECT + _SLOT * (len(fields) + 1) + inside


def element_weight(array: List) -> int:
    """Return the minimum memory, in bytes, of one decoded element of the array."""
    return _PLACE + weight(array.element)


def heaviest(node: Node) -> float:
    """Return the largest possible ratio of memory to encoded size for this layout: bytes of memory per encoded byte.

    The content of strings and bytes is excluded.
    """
    match node:
        case List(element):
            return max(element_weight(node) / smallest(element), heaviest(element))
        case Maybe(record):
            return max(weight(record) / (1 + smallest(record)), heaviest(record))
        case Record(_, slots, flexible, tagged):
            inside = [heaviest(slot.node) for slot in (*slots, *tagged)]
            return max(inside + [TAG_WEIGHT / 2] * flexible, default=0.0)
        case _:
            return 0.0


def _initial_weight(field: Field) -> int:
    """Return the memory, in bytes, of the default value of a field; 0 for a default object that all messages share."""
    if not field.is_fresh:
        return 0
    if field.kind == "array":
        return _LIST
    assert field.struct is not None
    inside = schema_of(field.struct).fields.values()
    return _OBJECT + _SLOT * (len(inside) + 1) + sum(map(_initial_weight, inside))


def text(message: type, version: int) -> str:
    """Return the wire layout of one version as text: one line per field, nested by indentation."""
    header = f"{schema_of(message).name} v{version}"
    return "\n".join([header, *_lines(resolve(message, version), "  ")])


def form(node: Node) -> str:
    """Return Kafka's name of the wire type that a layout describes, such as ``compact_nullable_string``."""
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


def versions_of(versions: Versions) -> range:
    """Return all versions in a closed range of versions."""
    assert versions.last is not None, "messages have a closed version range"
    return range(versions.first, versions.last + 1)
