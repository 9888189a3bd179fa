"""Creation of message values without Hypothesis: a value with every field set, or a random value."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any, TypeVar
from uuid import UUID

from kwire.fuzz import edges
from kwire.layout import Blob, Fixed, List, Maybe, Node, Record, Slot, Text, resolve

M = TypeVar("M")
UNKNOWN_TAG = 20  # above all tags in use, or else the next free one
NOTHING: Mapping[str, Any] = {}


def full(message: type[M], version: int) -> M:
    """Return a message in which every field is set.

    Arrays have one element, nothing is null, and each struct has an unknown tagged field.

    Args:
        message: class of the message.
        version: version whose fields are set.
    """
    value: M = _full(resolve(message, version))
    return value


def _full(node: Node) -> Any:
    match node:
        case Fixed(wire):
            return {"bool": True, "float64": 0.5, "uuid": UUID(int=7)}.get(wire, 5)
        case Text():
            return "\u00e9"
        case Blob():
            return b"\x00\xff"
        case List(element):
            return [_full(element)]
        case Maybe(record):
            return _full(record)
        case Record(cls, slots, flexible, tagged):
            fields = {slot.name: _full(slot.node) for slot in (*slots, *tagged)}
            return cls(**fields, unknown_tags={free_tag(node, UNKNOWN_TAG): b"?"} if flexible else None)


def any_value(message: type[M], version: int, random: Random, known: Mapping[str, Any] = NOTHING) -> M:
    """Return a random message that one version can carry, often with edge cases.

    Args:
        message: class of the message.
        version: version whose fields get values.
        random: source of randomness.
        known: preferred values for fields at any depth, by field name or by entity type (such as ``groupId``). If the
            preferred value is a list, one of its elements is chosen.
    """
    value: M = _Chance(random, known).of(resolve(message, version))
    return value


def free_tag(record: Record, tag: int) -> int:
    """Return the lowest tag number from ``tag`` on that no field of the struct uses."""
    used = {slot.tag for slot in record.tagged}
    while tag in used:
        tag += 1
    return tag


class _Chance:
    """A generator of random field values, derived from the layout of each field.

    Args:
        random: source of randomness.
        known: preferred values by field name or entity type, as in ``any_value``.
    """

    def __init__(self, random: Random, known: Mapping[str, Any]) -> None:
        self.random = random
        self.known = known

    def of(self, node: Node) -> Any:
        if getattr(node, "null", isinstance(node, Maybe)) and self.random.random() < 0.15:
            return None
        match node:
            case Fixed(wire):
                return self.fixed(wire)
            case Text():
                return self.random.choice(edges.TEXTS)
            case Blob():
                return self.random.choice(edges.CONTENTS)
            case List(element):
                return [self.of(element) for _ in range(self.random.choice((0, 1, 1, 1, 2, 3)))]
            case Maybe(record):
                return self.of(record)
            case Record(cls, slots, flexible):
                fields = {slot.name: self.slot(slot) for slot in (*slots, *self.some(node))}
                return cls(**fields, unknown_tags=self.tags(node) if flexible and self.random.random() < 0.1 else None)

    def slot(self, slot: Slot) -> Any:
        of_element = slot.field.of.entity if slot.field.of is not None else ""
        for name in (slot.name, slot.field.entity, of_element):
            if name in self.known and self.random.random() < 0.9:
                preset = self.known[name]
                value = self.random.choice(preset) if isinstance(preset, list) else preset
                if isinstance(slot.node, List) and _fits(slot.node.element, value):
                    return [value]
                if _fits(slot.node, value):
                    return value
        return self.of(slot.node)

    def some(self, record: Record) -> list[Slot]:
        return [slot for slot in record.tagged if self.random.random() < 0.5]

    def fixed(self, wire: str) -> Any:
        match wire:
            case "bool":
                return self.random.random() < 0.5
            case "float64":
                return self.random.choice(edges.FLOATS)
            case "uuid":
                return self.random.choice((*edges.UUIDS, UUID(int=self.random.getrandbits(128))))
            case _:
                low, high = edges.limits(wire)
                small, edge = range(max(low, -2), 4), edges.integers(wire)
                return self.random.choice((*small, *edge, self.random.randint(low, high)))

    def tags(self, record: Record) -> dict[int, bytes]:
        return {free_tag(record, UNKNOWN_TAG + self.random.randrange(200)): self.random.choice(edges.CONTENTS)}


def _fits(node: Node, value: Any) -> bool:
    """Return whether a value has the Python type of a field.

    Args:
        node: layout of the field.
        value: value to check.
    """
    match node:
        case Fixed("uuid"):
            return isinstance(value, UUID)
        case Fixed():
            return isinstance(value, int)
        case Text(_, null):
            return isinstance(value, str) or (null and value is None)
        case Blob(_, null):
            return isinstance(value, bytes) or (null and value is None)
        case _:
            return False
