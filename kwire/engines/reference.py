"""The reference engine: a Layout as a ``construct.Struct``. It is slow, but its errors contain path and offset of the
invalid field.

``struct(message, version)`` is an ordinary Construct: it can be nested, and ``parse``, ``build`` and ``parse_stream``
work. It parses bytes to an instance of the message class. It builds bytes from an instance or a mapping.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any, BinaryIO, TypeVar

from construct import Adapter, Construct, Subconstruct
from construct import Struct as ConstructStruct

from kwire.engines import primitives
from kwire.errors import DecodeError, EncodeError
from kwire.layout import Blob, Fixed, List, Maybe, Node, Record, Text, element_weight, resolve, smallest
from kwire.layout import weight as weight_of
from kwire.schema import schema_of

M = TypeVar("M")
TAGS = "unknown_tags"  # name of the tagged section inside the construct.Struct of a flexible record

FIXED = {
    "bool": primitives.Fixed("?", bool),
    "int8": primitives.Fixed("b", int),
    "int16": primitives.Fixed("h", int),
    "uint16": primitives.Fixed("H", int),
    "int32": primitives.Fixed("i", int),
    "uint32": primitives.Fixed("I", int),
    "int64": primitives.Fixed("q", int),
    "float64": primitives.Fixed("d", float),
    "uuid": primitives.Uuid(),
}


def to_construct(node: Node) -> Construct:
    """Return the Construct that decodes and encodes values with the given layout."""
    match node:
        case Fixed(wire):
            return FIXED[wire]
        case Text(compact, null):
            return primitives.Text(primitives.Length(None if compact else "h", null))
        case Blob(compact, null):
            return primitives.Blob(primitives.Length(None if compact else "i", null))
        case List(element, compact, null):
            length = primitives.Length(None if compact else "i", null)
            return primitives.Counted(to_construct(element), length, smallest(element), element_weight(node))
        case Maybe(record, tagged):
            return primitives.Maybe(to_construct(record), tagged, weight_of(record))
        case Record():
            return RecordStruct(node)


class RecordStruct(Adapter):
    """The construct of a struct: its fields are parsed in order to an instance of the declared class.

    Args:
        record: layout of the struct.
    """

    def __init__(self, record: Record) -> None:
        fields = [slot.name / to_construct(slot.node) for slot in record.slots]
        if record.flexible:
            forms = {slot.tag: (slot.name, to_construct(slot.node)) for slot in record.tagged if slot.tag is not None}
            fields.append(TAGS / Section(forms))
        super().__init__(ConstructStruct(*fields))
        self.record = record

    def _decode(self, obj: Any, context: Any, path: str) -> Any:
        values = {slot.name: obj[slot.name] for slot in self.record.slots}
        if self.record.flexible:
            tagged, unknown = obj[TAGS]
            values.update(tagged)
            if unknown:
                values[TAGS] = unknown
        value: Any = object.__new__(
            self.record.type
        )  # like the compiled engine: without calling __init__, which a subclass may override
        for name, field in schema_of(self.record.type).fields.items():
            setattr(value, name, values[name] if name in values else field.initial())
        value.unknown_tags = values.get(TAGS)
        return value

    def _encode(self, obj: Any, context: Any, path: str) -> Any:
        record = self.record
        if isinstance(obj, Mapping) and not context._params.get("typed"):
            obj = self._from_mapping(obj, path)
        if type(obj) is not record.type:
            expected, actual = record.type.__name__, type(obj).__name__
            raise EncodeError(f"expected {expected}, got {actual}", path=primitives.where(path))
        for slot in record.absent:
            if getattr(obj, slot.name) != (default := slot.field.initial()):
                raise EncodeError(
                    f"this version does not have the field: leave the field at its default {default!r}",
                    path=primitives.where(f"{path} -> {slot.name}"),
                )
        values = {slot.name: getattr(obj, slot.name) for slot in record.slots}
        unknown = getattr(obj, TAGS) or {}
        if record.flexible:
            tagged = {slot.name: getattr(obj, slot.name) for slot in record.tagged}
            defaults = {slot.name: slot.field.initial() for slot in record.tagged}
            values[TAGS] = ({name: v for name, v in tagged.items() if v != defaults[name]}, unknown)
        elif unknown:
            raise EncodeError("this version has no tagged fields", path=primitives.where(f"{path} -> {TAGS}"))
        return values

    def _from_mapping(self, obj: Mapping[str, Any], path: str) -> Any:
        fields = schema_of(self.record.type).fields
        for name in obj:
            if name not in fields and name != TAGS:
                raise EncodeError(f"{self.record.type.__name__} has no field {name!r}", path=primitives.where(path))
        return self.record.type(**obj)


class Section(primitives.Tagged):
    """The construct of a tagged section. Unlike the sections of other constructs, its name does not appear in error
    paths.

    The path of a field in the section is ``topics[0].node_id``, not ``topics[0].unknown_tags.node_id``.
    """

    def _parsereport(self, stream: BinaryIO, context: Any, path: str) -> Any:
        return super()._parsereport(stream, context, path.removesuffix(f" -> {TAGS}"))

    def _build(self, obj: Any, stream: BinaryIO, context: Any, path: str) -> Any:
        return super()._build(obj, stream, context, path.removesuffix(f" -> {TAGS}"))


class MessageStruct(Subconstruct):
    """The outermost construct of a message, which adds name and version of the message to every error.

    Args:
        message: class of the message.
        version: version of the message.
        layout: layout of this version.
    """

    def __init__(self, message: type, version: int, layout: Record) -> None:
        super().__init__(to_construct(layout))
        self.message = schema_of(message).name
        self.version = version

    def _parse(self, stream: BinaryIO, context: Any, path: str) -> Any:
        try:
            return self.subcon._parsereport(stream, context, path)
        except DecodeError as error:
            error.message, error.version = self.message, self.version
            raise

    def _build(self, obj: Any, stream: BinaryIO, context: Any, path: str) -> Any:
        try:
            return self.subcon._build(obj, stream, context, path)
        except EncodeError as error:
            error.message, error.version = self.message, self.version
            raise


_structs: dict[tuple[type, int], MessageStruct] = {}


def struct(message: type, version: int) -> MessageStruct:
    """Return the construct of one version of a message. It is built at the first call, and then cached.

    Raises: SchemaError if the message does not have this version.
    """
    layout = resolve(message, version)
    if (message, version) not in _structs:
        _structs[message, version] = MessageStruct(message, version, layout)
    return _structs[message, version]


def decode(message: type[M], data: bytes, offset: int, version: int, weight: int) -> tuple[M, int]:
    """Decode a message; return the message and the offset after its last byte.

    Args:
        message: class of the message.
        data: bytes that contain the message.
        offset: offset of the first byte of the message in ``data``.
        version: version of the message.
        weight: maximum memory of the decoded message, in bytes (see ``kwire.limits``).

    Raises: DecodeError with the path and byte offset of the invalid field.
    """
    stream = io.BytesIO(data)
    stream.seek(offset)
    value: Any = struct(message, version).parse_stream(stream, budget=primitives.Budget(weight))
    return value, stream.tell()


def encode(value: object, version: int) -> bytes:
    """Return the bytes of a message in a version. Nested structs must be instances, not mappings.

    Raises: EncodeError if a value cannot be encoded.
    """
    data: bytes = struct(type(value), version).build(value, typed=True)
    return data
