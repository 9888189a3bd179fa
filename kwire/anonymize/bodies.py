"""Replacement of all strings and bytes in a decoded message, except the fields that ``fields.HARMLESS`` lists."""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode
from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any
from uuid import UUID

from kwire.anonymize import fields
from kwire.anonymize.pseudonyms import Pseudonyms
from kwire.anonymize.records import Batches
from kwire.anonymize.stored import Context, Stored
from kwire.blobs.fields import ASSIGNORS, INSIDE
from kwire.json.objects import uuid_text
from kwire.layout import Blob, Fixed, List, Maybe, Node, Record, Slot, Text, resolve
from kwire.lazy_dataclass import dataclass
from kwire.redact import redact

SHARE_KEY = re.compile(r"(.*):([A-Za-z0-9_-]{22}):([0-9]+)", re.DOTALL)  # group, topic id, partition (KIP-932)
Replace = Callable[["Bodies", Any, Any, Context], Any]  # of the value of a field: its struct, and the context


@dataclass(frozen=True, slots=True)
class Plan:
    """The fields of a struct class that are replaced, with the function that replaces each field.

    Attributes:
        steps: pairs of the name of a field and the function that returns the new value of the field.
        assignor: name of the field that contains the group's assignor; None if the struct has no such field.
        has_type: True if the struct contains the protocol type of the group.
        flexible: True if the struct may have unknown tagged fields.
    """

    steps: tuple[tuple[str, Replace], ...]
    assignor: str | None
    has_type: bool
    flexible: bool


class Bodies:
    """A converter that replaces the strings and bytes of decoded messages by pseudonyms.

    Args:
        names: pseudonyms of text and bytes.
        keep_topics: True to keep the names and ids of topics.

    Attributes:
        dropped: number of record batches that were left out, by reason.
        records: converter of record batches.
        stored: converter of messages in bytes fields.
    """

    def __init__(self, names: Pseudonyms, *, keep_topics: bool = False) -> None:
        self.names = names
        self.keep_topics = keep_topics
        self.dropped: Counter[str] = Counter()
        self.records = Batches(names, self.dropped)
        self.stored = Stored(names, self.replace)

    def replace(self, message: Any, version: int, context: Context | None = None) -> None:
        """Replace the strings and bytes of a decoded message in place, and redact its secrets.

        Args:
            message: decoded request, response or blob.
            version: version in which the message will be encoded.
            context: protocol type and assignor of the group of the message; None without a group.
        """
        self._struct(message, _plan(resolve(type(message), version)), context or Context())
        redact(message)

    def tags(self, unknown: dict[int, bytes]) -> dict[int, bytes]:
        """Return unknown tagged fields with replaced contents.

        Args:
            unknown: contents of the fields, by tag number.
        """
        return {tag: self.names.data(content) for tag, content in unknown.items()}

    def topic(self, name: str) -> str:
        """Return the pseudonym of a topic name, or the name itself if ``keep_topics`` is set."""
        return name if self.keep_topics else self.names.text(name)

    def topic_id(self, topic_id: UUID) -> UUID:
        """Return the pseudonym of a topic id, or the id itself if ``keep_topics`` is set."""
        return topic_id if self.keep_topics else self.names.uuid(topic_id)

    def coordinator_key(self, key: str) -> str:
        """Return the pseudonym of a coordinator key: a group id, a transactional id or a share partition.

        In a share partition (``group:topic id:partition``), the group id and the topic id are replaced.
        """
        match = SHARE_KEY.fullmatch(key)
        if match is None:
            return self.names.text(key)
        group, text, partition = match.groups()
        topic_id = self.topic_id(UUID(bytes=urlsafe_b64decode(f"{text}==")))
        return f"{self.names.text(group)}:{uuid_text(topic_id)}:{partition}"

    def _struct(self, value: Any, plan: Plan, context: Context) -> None:
        if plan.has_type:
            context = Context(value.protocol_type, context.assignor)
        if plan.assignor is not None:
            context = Context(context.protocol_type, getattr(value, plan.assignor))
        for name, step in plan.steps:
            content = getattr(value, name)
            if content is not None:
                setattr(value, name, step(self, content, value, context))
        if plan.flexible and value.unknown_tags:
            value.unknown_tags = self.tags(value.unknown_tags)


@cache
def _plan(record: Record) -> Plan:
    carried = {slot.name for slot in record.slots}
    steps = []
    for slot in (*record.slots, *record.tagged):
        step = _step(f"{record.type.__qualname__}.{slot.name}", slot, slot.node)
        if step is not None:
            steps.append((slot.name, step))
    assignor = ASSIGNORS.get(record.type.__qualname__) or ("protocol_name" if "protocol_name" in carried else None)
    return Plan(tuple(steps), assignor, "protocol_type" in carried, record.flexible)


def _step(field: str, slot: Slot, node: Node) -> Replace | None:
    """Return the function that replaces the content of a field; None if the content is kept.

    Args:
        field: qualified name of the field, such as ``JoinGroupRequest.Protocol.name``.
        slot: entry of the field in the layout of its struct.
        node: layout of the content: that of the field, or that of the elements if the field is an array.
    """
    if slot.name in fields.HARMLESS or field in fields.HARMLESS:
        return None
    if slot.name == fields.NAMED_TOPOLOGY and isinstance(node, List):
        return _utf16
    match node:
        case Text():
            return _text_step(field, slot)
        case Blob(records=True):
            return lambda bodies, value, _owner, _context: bodies.records.replace(value)
        case Blob():
            if field in INSIDE:
                return lambda bodies, value, _owner, context: bodies.stored.inside(field, value, context)
            if slot.name == "user_data":
                return lambda bodies, value, owner, context: bodies.stored.user_data(type(owner), value, context)
            if field == "ConnectWorkerState.allocation":
                return lambda bodies, value, _owner, _context: bodies.stored.allocation(value)
            return lambda bodies, value, _owner, _context: bodies.names.data(value)
        case Fixed("uuid"):
            if slot.name == fields.TOPIC_ID:
                return lambda bodies, value, _owner, _context: bodies.topic_id(value)
            return lambda bodies, value, _owner, _context: bodies.names.uuid(value)
        case List(element):
            return _each(_step(field, slot, element))
        case (Record() as record) | Maybe(record):
            return _nested(record)
        case _:
            return None


def _text_step(field: str, slot: Slot) -> Replace:
    of = slot.field if slot.field.of is None else slot.field.of
    if fields.TOPIC_NAME in (slot.field.entity, of.entity) or field in fields.TOPICS:
        return lambda bodies, value, _owner, _context: bodies.topic(value)
    if slot.name in fields.HOSTS:
        return lambda bodies, value, _owner, _context: bodies.names.host(value)
    if slot.name in fields.RESOURCES:
        return _resource
    if field in fields.COORDINATOR_KEYS:
        return lambda bodies, value, _owner, _context: bodies.coordinator_key(value)
    return lambda bodies, value, _owner, _context: bodies.names.text(value)


def _resource(bodies: Bodies, value: str, owner: Any, context: Context) -> str:  # noqa: ARG001
    kind = getattr(owner, "resource_type", None) or getattr(owner, "resource_type_filter", None)
    if kind == fields.TOPIC_RESOURCE:
        return bodies.topic(value)
    is_config = "Config" in type(owner).__qualname__
    if is_config and kind in fields.BROKER_RESOURCES and value.isascii() and value.isdigit():
        return value
    return bodies.names.text(value)


def _utf16(bodies: Bodies, value: list[int], owner: Any, context: Context) -> list[int]:  # noqa: ARG001
    return [ord(letter) for letter in bodies.names.text("".join(map(chr, value)))[: len(value)]]


def _each(step: Replace | None) -> Replace | None:
    if step is None:
        return None
    return lambda bodies, values, owner, context: [
        value if value is None else step(bodies, value, owner, context) for value in values
    ]


def _nested(record: Record) -> Replace | None:
    plan = _plan(record)
    if not plan.steps and not plan.flexible:
        return None

    def replace(bodies: Bodies, value: Any, owner: Any, context: Context) -> Any:  # noqa: ARG001
        bodies._struct(value, plan, context)
        return value

    return replace
