"""Conversion of messages to JSON objects and back, in the form that ``kwire decode`` prints.

Keys are Kafka's field names in snake_case. Bytes are base64. UUIDs are in Kafka's form: URL-safe base64 without
padding. Fields that the version lacks, and tagged fields with their default value, are left out. Unknown tagged fields
are in ``_unknown_tags`` of their struct.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Mapping
from reprlib import repr as shorten
from typing import Any, TypeVar
from uuid import UUID

from kwire.errors import EncodeError
from kwire.layout import Blob, Fixed, List, Maybe, Node, Record, Text, resolve
from kwire.schema import schema_of, unknown_tags

M = TypeVar("M")
UNKNOWN_TAGS = "_unknown_tags"
_TAG = "0|[1-9][0-9]{0,9}"
_UUID = "[A-Za-z0-9_-]{22}"
_NOT_NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def to_json(value: object, version: int) -> dict[str, Any]:
    """Return the JSON form of a message in one version.

    Args:
        value: message to convert.
        version: version whose fields are included.

    Raises: SchemaError if the message does not have this version.
    """
    return _dump_record(value, resolve(type(value), version))


def from_json(message: type[M], form: object, version: int) -> M:
    """Return the message for a JSON object. A field that is missing in the object gets its default value.

    Args:
        message: class of the message.
        form: JSON object, as ``to_json`` returns it.
        version: version whose fields the object may have.

    Raises: EncodeError with the path of an unknown key or of a value of the wrong type; SchemaError if the message does
    not have this version.
    """
    try:
        value: M = _load(form, resolve(message, version), "")
    except EncodeError as error:
        error.message, error.version = schema_of(message).name, version
        raise
    return value


def uuid_text(value: UUID) -> str:
    """Return a UUID in Kafka's text form: 22 characters of URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


def _dump_record(value: object, record: Record) -> dict[str, Any]:
    out = {slot.name: dump(getattr(value, slot.name), slot.node) for slot in record.slots}
    for slot in record.tagged:
        content = getattr(value, slot.name)
        if content != slot.field.initial():
            out[slot.name] = dump(content, slot.node)
    if unknown := unknown_tags(value):
        out[UNKNOWN_TAGS] = {str(tag): base64.b64encode(data).decode() for tag, data in unknown.items()}
    return out


def dump(value: Any, node: Node) -> Any:
    """Return the JSON form of one value of a message.

    Args:
        value: value of a field, or of an array element.
        node: layout of the value.
    """
    if value is None:
        return None
    match node:
        case Fixed("uuid"):
            return uuid_text(value)
        case Fixed("float64") if not math.isfinite(value):
            return next(name for name, number in _NOT_NUMBERS.items() if str(number) == str(value))
        case Blob():
            return base64.b64encode(value).decode()
        case List(element):
            return [dump(item, element) for item in value]
        case Maybe(record):
            return _dump_record(value, record)
        case Record():
            return _dump_record(value, node)
        case _:
            return value


def _load(form: Any, node: Node, path: str) -> Any:
    if form is None and not isinstance(node, Record):
        return None  # the engine raises where null is not allowed
    match node:
        case Fixed("uuid"):
            return _uuid(form, path)
        case Fixed("float64") if isinstance(form, str) and form in _NOT_NUMBERS:
            return _NOT_NUMBERS[form]
        case Fixed(wire):
            expected = {"bool": (bool,), "float64": (int, float)}.get(wire, (int,))
            if not isinstance(form, expected) or (isinstance(form, bool) and wire != "bool"):
                raise EncodeError(f"expected a value of type {wire}, got {shorten(form)}", path=path)
            return form
        case Text():
            if not isinstance(form, str):
                raise EncodeError(f"expected a string, got {shorten(form)}", path=path)
            return form
        case Blob():
            return _base64(form, path)
        case List(element):
            if not isinstance(form, list):
                raise EncodeError(f"expected an array, got {shorten(form)}", path=path)
            return [_load(item, element, f"{path}[{index}]") for index, item in enumerate(form)]
        case Maybe(record):
            return _load(form, record, path)
        case Record():
            return _load_record(form, node, path)


def _load_record(form: Any, record: Record, path: str) -> Any:
    if not isinstance(form, Mapping):
        raise EncodeError(f"expected an object, got {shorten(form)}", path=path)
    nodes = {slot.name: slot.node for slot in (*record.slots, *record.tagged)}
    values: dict[str, Any] = {}
    for key, item in form.items():
        here = f"{path}.{key}" if path else str(key)
        if key == UNKNOWN_TAGS and record.flexible:
            values["unknown_tags"] = _load_tags(item, here)
        elif key in nodes:
            values[key] = _load(item, nodes[key], here)
        else:
            raise EncodeError("unknown field in this version", path=here)
    return record.type(**values)


def _load_tags(form: Any, path: str) -> dict[int, bytes]:
    if not isinstance(form, Mapping) or not all(isinstance(tag, str) and re.fullmatch(_TAG, tag) for tag in form):
        raise EncodeError(f"expected an object with tag numbers as keys, got {shorten(form)}", path=path)
    return {int(tag): _base64(item, f"{path}.{tag}") for tag, item in form.items()}


def _base64(form: Any, path: str) -> bytes:
    try:
        return base64.b64decode(form, validate=True)
    except (TypeError, ValueError):
        raise EncodeError(f"expected base64, got {shorten(form)}", path=path) from None


def _uuid(form: Any, path: str) -> UUID:
    if not isinstance(form, str) or not re.fullmatch(_UUID, form):
        raise EncodeError(f"expected a uuid of 22 characters, got {shorten(form)}", path=path)
    return UUID(bytes=base64.urlsafe_b64decode(form + "=="))
