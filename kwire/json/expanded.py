"""The expanded JSON form of messages, which includes topic names and the decoded content of bytes fields.

The object has the keys of ``kwire.json.objects``, and keys that begin with an underscore:

- ``_topic_name`` next to a topic id;
- ``_metadata``, ``_assignment`` and similar keys next to a bytes field that contains a message: the object that ``kwire
  blob`` prints for the bytes;
- ``_records`` next to record batches, if requested.

Redacted secrets are shown as ``[redacted]``. The functions that build the object are generated for each version of a
message on first use.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any
from uuid import UUID

from kwire import codec
from kwire.blobs import BLOBS, body_offset, readable_version, stored_version
from kwire.blobs.fields import ASSIGNORS, CONSUMER, INSIDE
from kwire.blobs.sticky import CooperativeStickyUserData, decode_user_data
from kwire.codegen import Lines, Names, StructFunctions, run, source
from kwire.errors import DecodeError
from kwire.json.objects import UNKNOWN_TAGS, dump, uuid_text
from kwire.layout import Blob, Fixed, List, Maybe, Node, Record, resolve
from kwire.redact import REDACTED
from kwire.schema import ZERO_UUID

Form = dict[str, Any]
MAX_OPENED = 16 * 1024 * 1024  # maximum decompressed bytes of the records of one field
MAX_RECORDS = 10_000  # maximum records shown of one field
MAX_CACHED = 4_096  # bytes of the largest message in a bytes field whose JSON object is cached


@dataclass(frozen=True, slots=True)
class Context:
    """Information that the expanded JSON form of a message contains but the message itself does not.

    Attributes:
        name_of: function that returns the topic name of a topic id; None for an unknown id.
        records: True to decode record batches.
        protocol_type: protocol type of the message's group; None if unknown.
        assignor: name of the group's assignor; None if unknown.
    """

    name_of: Callable[[UUID], str | None] = lambda _: None
    records: bool = False  # decode record batches
    protocol_type: str | None = None
    assignor: str | None = None

    def of_type(self, protocol_type: str | None) -> Context:
        return Context(self.name_of, self.records, protocol_type, self.assignor)

    def of_assignor(self, assignor: str | None) -> Context:
        return Context(self.name_of, self.records, self.protocol_type, assignor)


PLAIN = Context()


def form_of(message: Any, version: int, context: Context = PLAIN) -> Form:
    """Return the expanded JSON form of a message.

    Args:
        message: decoded message.
        version: version whose fields are included.
        context: information that the message does not contain, such as topic names.
    """
    return _former(message.__class__, version)(message, context)


def error_of(message: Any, version: int) -> int | None:
    """Return the first non-zero error code of a response. The top-level error code precedes nested error codes.

    The result is 0 if all error codes are 0, and None if the response has no error code.

    Args:
        message: decoded response.
        version: API version of the response.
    """
    first_error = _errors(message.__class__, version)
    return None if first_error is None else first_error(message)


@cache
def _former(message: type, version: int) -> Callable[[Any, Context], Form]:
    maker = _FormFunctions(f"form of {message.__qualname__} v{version}")
    form_function: Callable[[Any, Context], Form] = maker.run(maker.record(resolve(message, version)), _SPACE)
    return form_function


class _FormFunctions(StructFunctions):
    """A generator of Python source: one function per struct, which returns the expanded JSON form of the struct."""

    def record(self, record: Record) -> str:
        """Generate the function that returns the expanded JSON form of a struct.

        Args:
            record: layout of the struct.

        Returns: the name of the function.
        """
        name, lines = self.begin("form", "o, c")
        struct = record.type.__qualname__
        carried = {slot.name for slot in record.slots}
        if "protocol_type" in carried:
            lines.add("c = c.of_type(o.protocol_type)")
        if assignor := ASSIGNORS.get(struct) or ("protocol_name" if "protocol_name" in carried else None):
            lines.add(f"c = c.of_assignor(o.{assignor})")
        items = ", ".join(f'"{slot.name}": {self.value(slot.node, f"o.{slot.name}")}' for slot in record.slots)
        lines.add(f"d = {{{items}}}")
        for slot in record.tagged:
            lines.add(f"if {self.is_not_initial(slot.name, slot.field)}:")
            lines.add(f'    d["{slot.name}"] = {self.value(slot.node, f"o.{slot.name}")}')
        for slot in record.slots:
            self.add_decoded(lines, struct, slot.name, slot.node)
        if record.flexible:
            lines.add("if o.unknown_tags:", f'    d["{UNKNOWN_TAGS}"] = tags(o.unknown_tags)')
        lines.add("return d")
        return name

    def add_decoded(self, lines: Lines, struct: str, name: str, node: Node) -> None:
        """Add the statements for the key with an underscore that belongs to a field: a topic name, or decoded content.

        Nothing is added for a field without such a key.

        Args:
            lines: lines of the generated function.
            struct: qualified name of the struct.
            name: name of the field.
            node: layout of the field.
        """
        inner: str | None = None
        if name == "topic_id" and node == Fixed("uuid"):
            inner, name = "topic(o.topic_id, c)", "topic_name"
        elif isinstance(node, Blob) and node.records:
            inner = f"opened(o.{name}) if c.records else None"
        elif (field := f"{struct}.{name}") in INSIDE:
            inner = f'inside(o.{name}, "{INSIDE[field]}", c)'
        if inner is not None:
            lines.add(f"m = {inner}", "if m is not None:", f'    d["_{name}"] = m')

    def value(self, node: Node, place: str) -> str:
        """Return a Python expression that computes the JSON form of a value.

        Args:
            node: layout of the value.
            place: Python expression that evaluates to the value.
        """
        match node:
            case Fixed("uuid"):
                return f"uuid({place})"
            case Fixed("float64"):
                return f"number({place})"
            case Blob():
                return f"data({place})"
            case List(Record() as record):
                return self._each(f"[{self.record(record)}(x, c) for x in {place}]", node.null, place)
            case List(Fixed("uuid" | "float64") | Blob() as element):
                return self._each(f"[{self.value(element, 'x')} for x in {place}]", node.null, place)
            case Maybe(record):
                return self._each(f"{self.record(record)}({place}, c)", True, place)
            case Record():
                return f"{self.record(node)}({place}, c)"
            case _:
                return place

    @staticmethod
    def _each(expression: str, null: bool, place: str) -> str:
        return f"None if {place} is None else {expression}" if null else expression


@cache
def _errors(message: type, version: int) -> Callable[[Any], int] | None:
    lines = Lines("def error(o0):")
    if not _add_error_checks(lines, resolve(message, version), 0):
        return None
    lines.add("return 0")
    title, names = f"first error code of {message.__qualname__} v{version}", Names()
    first_error: Callable[[Any], int] = run(source(title, names, [lines]), names, {})["error"]
    return first_error


def _add_error_checks(lines: Lines, record: Record, depth: int) -> bool:
    """Add the statements that return the first non-zero error code in a struct.

    Args:
        lines: lines of the generated function.
        record: layout of the struct.
        depth: number of structs and arrays that contain the struct; 0 for the response itself. It selects the name of
            the variable with the struct.

    Returns: False if the struct cannot contain an error code.
    """
    here, inner, has_code = f"o{depth}", f"o{depth + 1}", False
    for slot in record.slots:
        if slot.name == "error_code" and slot.node == Fixed("int16"):
            lines.add(f"if {here}.error_code:", f"    return {here}.error_code")
            has_code = True
    for slot in record.slots:
        match slot.node:
            case List(Record() as struct) if _has_error(struct):
                with lines.block(f"for {inner} in {here}.{slot.name} or ():"):
                    _add_error_checks(lines, struct, depth + 1)
                has_code = True
            case (Record() as struct) | Maybe(struct) if _has_error(struct):
                lines.add(f"{inner} = {here}.{slot.name}")
                with lines.block(f"if {inner} is not None:"):
                    _add_error_checks(lines, struct, depth + 1)
                has_code = True
            case _:
                pass
    return has_code


def _has_error(record: Record) -> bool:
    return _add_error_checks(Lines(""), record, 0)


_uuid = lru_cache(4_096)(uuid_text)


def _data(value: bytes | None) -> str | None:
    if value is None:
        return None
    return REDACTED.decode() if value == REDACTED else base64.b64encode(value).decode()


def _number(value: float) -> Any:
    return dump(value, Fixed("float64"))


def _tags(tags: dict[int, bytes]) -> Form:
    return {str(tag): base64.b64encode(data).decode() for tag, data in tags.items()}


def _topic(topic_id: UUID, context: Context) -> str | None:
    return None if topic_id == ZERO_UUID else context.name_of(topic_id)


def _stored(name: str, data: bytes, assignor: str | None) -> Form | None:
    """Return the JSON object that ``kwire blob`` prints for a message in a bytes field.

    The result is None if the bytes are not a valid message. Results may be cached, so callers must not change them.

    Args:
        name: Kafka's name of the message.
        data: content of the field: version and message.
        assignor: name of the group's assignor; None if unknown.
    """
    blob = BLOBS[name]
    try:
        version = readable_version(blob, written := stored_version(blob, data))
        value: Any = codec.decode_at(blob, data, body_offset(blob), version)[0]
    except DecodeError:
        return None
    fields = form_of(value, version)
    user_data = getattr(value, "user_data", None)
    if user_data and name.endswith("Subscription") and (inner := _user_data(user_data, assignor)):
        fields["_user_data"] = inner
    return {"type": name, "version": written, "fields": fields}


_small_stored = lru_cache(1_024)(_stored)


def _user_data(data: bytes, assignor: str | None) -> Form | None:
    """Return the JSON object of the user data of a sticky assignor.

    The result is None if the bytes cannot be decoded, and for every assignor except ``sticky`` and
    ``cooperative-sticky``.
    """
    value: Any
    try:
        if assignor == "sticky":
            value, version, _ = decode_user_data(data)
        elif assignor == "cooperative-sticky":
            value, version = codec.decode(CooperativeStickyUserData, data, 0), 0
        else:
            return None
    except DecodeError:
        return None
    return {"type": "StickyUserData", "assignor": assignor, "version": version, "fields": form_of(value, version)}


def inside_form(data: bytes | None, name: str, context: Context) -> Form | None:
    """Return the JSON object of the message in a bytes field, such as a subscription.

    The result is None if the field is null or empty, if the bytes are not a valid message, and if the protocol type of
    the group is known and is not ``consumer``.

    Args:
        data: content of the field; None for null.
        name: Kafka's name of the message.
        context: protocol type and assignor of the group.
    """
    if not data or context.protocol_type not in (None, CONSUMER):
        return None
    stored = _small_stored if len(data) <= MAX_CACHED else _stored
    return stored(name, data, context.assignor)


def _opened(data: bytes | None) -> list[Form] | None:
    """Return the JSON objects of record batches, including their records.

    After an invalid batch, or when the records are larger than the display limit, no more batches follow. The last
    object then has the key ``error``.

    Args:
        data: content of a records field; None returns None.
    """
    if data is None:
        return None
    from kwire.records import read  # on first use: most outputs contain no records

    batches: list[Form] = []
    remaining, count = MAX_OPENED, 0
    try:
        for batch in read(data):
            form: Form = {"base_offset": batch.base_offset, "magic": batch.magic, "codec": batch.codec, "records": []}
            batches.append(form)
            for record in batch.records(verify_crc=False, limit=remaining):
                count += 1
                remaining -= _size(record)
                if count > MAX_RECORDS or remaining <= 0:
                    form["error"] = "truncated: above the display limit"
                    return batches
                headers = [[name, _data(value)] for name, value in record.headers]
                line = {"offset": record.offset, "timestamp": record.timestamp, "key": _data(record.key)}
                form["records"].append({**line, "value": _data(record.value), "headers": headers})
    except DecodeError as error:
        batches.append({"error": str(error)})
    return batches


def _size(record: Any) -> int:
    """Return the size of a record's key, value and headers, in bytes. A header has at least two bytes, its lengths."""
    headers = sum(len(name) + len(value or b"") + 2 for name, value in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers


_SPACE: dict[str, Any] = {
    "uuid": _uuid,
    "data": _data,
    "number": _number,
    "tags": _tags,
    "topic": _topic,
    "inside": inside_form,
    "opened": _opened,
}
