"""Preparation of the package ``kwire-native``, which writes captured frames as JSON lines from the bytes of the frames.

The text equals that of ``json.dumps`` for the rows of ``kwire.capture.rows``, with bodies as ``kwire.json.expanded``
builds them. The bodies are not decoded to Python objects. For each version of a message, the package needs a table,
which this module builds from the layout of the message. The package is used only if the default engine is the native
engine; otherwise Python decodes the bodies and writes the JSON.
"""

from __future__ import annotations

import json
from functools import cache, lru_cache
from typing import Any

from kwire.blobs.fields import ASSIGNORS, INSIDE
from kwire.engines.chosen import native_package
from kwire.engines.native import package, table
from kwire.json.expanded import MAX_CACHED, Context, inside_form
from kwire.json.objects import dump
from kwire.layout import (
    Blob,
    Fixed,
    List,
    Maybe,
    Node,
    Record,
    Text,
    element_weight,
    resolve,
    smallest,
    weight,
)
from kwire.redact import REDACTED


@cache
def form_of(message: type, version: int) -> Any:
    """Return the object with which the native package writes one version of a message as JSON.

    The result is None if Python must write the JSON: the native engine is not the default engine, or the fields of the
    message are in an order that the package cannot process.

    Args:
        message: class of the message.
        version: version of the message.
    """
    native = native_package()
    if native is None:
        return None
    layout = resolve(message, version)
    try:
        return native.Form(_table(layout), _has_error(layout), REDACTED, _inside)
    except _NotInOrderError:
        return None


def line_writer(calls: type, names: dict[int, str]) -> Any:
    """Return the native writer of JSON lines of frames.

    The result is None if Python must write the lines, because the native engine is not the default engine.

    Args:
        calls: class of the calls, which are requests with their responses.
        names: name of each API, by its key.
    """
    native = native_package()
    return None if native is None else native.Lines(calls, names)


@cache
def is_body(kind: type) -> bool:
    """Return whether a class is the native class of undecoded bodies.

    The native package keeps such a body as bytes and writes it as JSON.
    """
    native = package()
    return native is not None and kind is native.Body


class _NotInOrderError(Exception):
    """The error for a struct in which a nested struct precedes the protocol type or the assignor of the group.

    The native package needs the protocol type and the assignor before it reads a message in a bytes field.
    """


def _table(node: Node) -> tuple[Any, ...]:
    match node:
        case Fixed() | Text() | Blob():  # the same in both tables of the package
            return table(node)
        case List(element, compact, null):
            return ("array", _table(element), compact, null, smallest(element), element_weight(node))
        case Maybe(record, tagged):
            return ("maybe", _table(record), tagged, weight(record))
        case Record():
            return ("struct", _fields(node), node.flexible, [_tagged_field(slot) for slot in node.tagged])


def _fields(record: Record) -> list[tuple[str, tuple[Any, ...], str, str, str | None]]:
    """Return five values for each field of a struct, as the native package needs them.

    The values are: name of the field; table of its layout; role of the field (``error_code``, ``protocol_type``,
    ``assignor`` or ""); name of the additional key with an underscore, or ""; and Kafka's name of the message in the
    field, or None.

    Raises: _NotInOrderError if a nested struct precedes the protocol type or the assignor.
    """
    struct = record.type.__qualname__
    assignor = ASSIGNORS.get(struct, "protocol_name")
    fields, has_structs = [], False
    for slot in record.slots:
        role, explained, inside = "", "", INSIDE.get(f"{struct}.{slot.name}")
        if slot.name == "error_code" and slot.node == Fixed("int16"):
            role = "error_code"
        elif slot.name == "protocol_type" and isinstance(slot.node, Text):
            role = "protocol_type"
        elif slot.name == assignor and isinstance(slot.node, Text):
            role = "assignor"
        if slot.name == "topic_id" and slot.node == Fixed("uuid"):
            explained = "_topic_name"
        elif inside is not None:
            explained = f"_{slot.name}"
        if has_structs and role in ("protocol_type", "assignor"):
            raise _NotInOrderError
        has_structs |= isinstance(slot.node, (List, Maybe, Record))
        fields.append((slot.name, _table(slot.node), role, explained, inside if explained else None))
    return fields


def _tagged_field(slot: Any) -> tuple[str, int, tuple[Any, ...], str]:
    return slot.name, slot.tag, _table(slot.node), json.dumps(dump(slot.field.initial(), slot.node))


def _has_error(node: Node) -> bool:
    """Return whether values with a layout can contain a field ``error_code`` that is not a tagged field."""
    match node:
        case List(element):
            return _has_error(element)
        case Maybe(record):
            return _has_error(record)
        case Record(_, slots):
            is_code = [slot.name == "error_code" and slot.node == Fixed("int16") for slot in slots]
            return any(is_code) or any(_has_error(slot.node) for slot in slots)
        case _:
            return False


def _text_inside(data: bytes, name: str, protocol_type: bytes | None, assignor: bytes | None) -> bytes | None:
    """Return the JSON text of the message in a bytes field, such as a subscription.

    The result is None if the bytes are empty or not a valid message, or if the group is not a consumer group.

    Args:
        data: content of the field.
        name: Kafka's name of the message.
        protocol_type: protocol type of the group, as encoded; None if unknown.
        assignor: name of the group's assignor, as encoded; None if unknown.
    """
    texts = [None if text is None else text.decode("utf-8", "surrogateescape") for text in (protocol_type, assignor)]
    form = inside_form(data, name, Context(protocol_type=texts[0], assignor=texts[1]))
    return None if form is None else json.dumps(form).encode()


_small_text_inside = lru_cache(1_024)(_text_inside)


def _inside(data: bytes, name: str, protocol_type: bytes | None, assignor: bytes | None) -> bytes | None:
    """Return the result of ``_text_inside``, from the cache if the message is small."""
    text_inside = _small_text_inside if len(data) <= MAX_CACHED else _text_inside
    return text_inside(data, name, protocol_type, assignor)
