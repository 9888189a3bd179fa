"""Conversion of messages to JSON text by generated functions.

The text equals that of ``json.dumps`` without spaces for the result of ``objects.to_json``, and takes a sixth of the
time. A function is generated for each version of a message on first use, and cached.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping
from functools import cache, lru_cache
from json.encoder import encode_basestring_ascii
from typing import Any
from uuid import UUID

from kwire.codegen import StructFunctions
from kwire.json.objects import UNKNOWN_TAGS, dump, uuid_text
from kwire.layout import Blob, Fixed, List, Maybe, Node, Record, Text, resolve

RECORDS = "records"  # field name of record batches
NULL = "null"


def json_text(message: Any, version: int, *, records: bool = True) -> str:
    """Return the JSON form of a message in one version, as one line of ASCII without spaces.

    Args:
        message: message to convert.
        version: version whose fields are included.
        records: False to replace record batches with ``{"bytes": n}``, where ``n`` is their size.

    Raises: SchemaError if the message does not have this version.
    """
    return _writer(message.__class__, version, records)(message)


@cache
def _writer(message: type, version: int, records: bool) -> Callable[[Any], str]:
    maker = _TextFunctions(f"JSON text of {message.__qualname__} v{version}", records)
    text_function: Callable[[Any], str] = maker.run(maker.record(resolve(message, version)), _SPACE)
    return text_function


class _TextFunctions(StructFunctions):
    """A generator of Python source: one function for each struct, which returns the JSON text of the struct.

    Args:
        title: comment at the top of the source.
        records: False to replace record batches with ``{"bytes": n}``, where ``n`` is their size.
    """

    def __init__(self, title: str, records: bool) -> None:
        super().__init__(title)
        self.records = records

    def record(self, record: Record) -> str:
        """Generate the function that returns the JSON text of a struct.

        Args:
            record: layout of the struct.

        Returns: the name of the function.
        """
        name, lines = self.begin("text", "o")
        items = ",".join(f'"{slot.name}":{{{self.value(slot.node, slot.name)}}}' for slot in record.slots)
        if not record.tagged and not record.flexible:
            lines.add(f"return f'{{{{{items}}}}}'")
            return name
        lines.add(f"t = f',{items}'" if items else "t = ''")
        for slot in record.tagged:
            lines.add(f"if {self.is_not_initial(slot.name, slot.field)}:")
            lines.add(f"    t += f',\"{slot.name}\":{{{self.value(slot.node, slot.name)}}}'")
        if record.flexible:
            lines.add("if o.unknown_tags:", "    t += tags(o.unknown_tags)")
        lines.add("return '{' + t[1:] + '}'")
        return name

    def value(self, node: Node, name: str) -> str:
        """Return a Python expression that computes the JSON text of a field. The expression is used in an f-string.

        Args:
            node: layout of the field.
            name: name of the field. The expression reads this attribute of the variable ``o``.
        """
        match node:
            case Blob(records=True) if name == RECORDS and not self.records:
                return f"size(o.{name})"
            case List(element):
                return f"array({self.function(element)}, o.{name})"
            case Maybe(record):
                return f"maybe({self.record(record)}, o.{name})"
            case Fixed(wire) if wire not in _FIXED:
                return f"o.{name}"
            case _:
                return f"{self.function(node)}(o.{name})"

    def function(self, node: Node) -> str:
        """Return the name of the function that converts values with the layout ``node`` to JSON text.

        For a struct, the function is generated first.
        """
        match node:
            case Fixed(wire):
                return _FIXED.get(wire, "str")
            case Text(null=null):
                return "text" if null else "quoted"
            case Blob():
                return "data"
            case _:
                assert isinstance(node, Record)  # Kafka has no arrays of arrays
                return self.record(node)


_FIXED = {"uuid": "uuid", "float64": "number", "bool": "boolean"}  # the rest are integers
_quoted = encode_basestring_ascii


def _text(value: str | None) -> str:
    return NULL if value is None else _quoted(value)


def _data(value: bytes | None) -> str:
    return NULL if value is None else f'"{base64.b64encode(value).decode()}"'


def _size(value: bytes | None) -> str:
    return NULL if value is None else f'{{"bytes":{len(value)}}}'


def _array(text_of: Callable[[Any], str], values: Iterable[Any] | None) -> str:
    return NULL if values is None else f"[{','.join(map(text_of, values))}]"


def _maybe(text_of: Callable[[Any], str], value: Any) -> str:
    return NULL if value is None else text_of(value)


def _number(value: float) -> str:
    return json.dumps(dump(value, Fixed("float64")))


def _tags(tags: Mapping[int, bytes]) -> str:
    fields = ",".join(f'"{tag}":{_data(data)}' for tag, data in tags.items())
    return f',"{UNKNOWN_TAGS}":{{{fields}}}'


@lru_cache(4_096)
def _uuid(value: UUID) -> str:
    return f'"{uuid_text(value)}"'


_SPACE: dict[str, Any] = {
    "array": _array,
    "boolean": ("false", "true").__getitem__,
    "data": _data,
    "maybe": _maybe,
    "number": _number,
    "quoted": _quoted,
    "size": _size,
    "tags": _tags,
    "text": _text,
    "uuid": _uuid,
}
