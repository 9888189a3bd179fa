"""Shapes of JSON values: a shape checks a value, and describes itself as JSON Schema.

The bodies, query parameters and responses of the control API are declared with shapes, so that the checks and the
OpenAPI document have one source.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from difflib import get_close_matches
from typing import Any, TypeAlias

from kwire.lazy_dataclass import dataclass
from mockbroker.faults.sections import Problem

Schema: TypeAlias = dict[str, Any]
SHOWN = 100  # maximum characters of a value in a message
CLOSE = 5  # maximum number of similar names in a message
LAST = 2**63 - 1  # the largest number in Kafka's protocol


def shown(value: object) -> str:
    """Return a value as text for a message: printable ASCII, at most SHOWN characters."""
    text = ascii(value) if isinstance(value, (str, int, float)) or value is None else _KINDS.get(type(value), "a value")
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


_KINDS: dict[type, str] = {dict: "an object", list: "a list"}


class Shape(ABC):
    """The base class of shapes: a shape checks a JSON value, and returns the JSON Schema of all valid values."""

    @abstractmethod
    def problems(self, value: Any, path: str) -> Iterator[Problem]:
        """Yield the problems of a value; nothing if the value has this shape.

        Args:
            value: the JSON value.
            path: path of the value in the request, such as ``records[0].key``.
        """

    @abstractmethod
    def schema(self) -> Schema:
        """Return the JSON Schema of the shape. An object with a name is a reference to its definition."""

    def parse(self, text: str) -> Any:
        """Parse the text of a query parameter.

        An invalid text is returned unchanged, so that ``problems`` reports it.
        """
        return text

    def named(self) -> Iterator[Object]:
        """Yield the object shapes inside this shape that have a name in the OpenAPI document."""
        yield from ()


@dataclass(frozen=True, slots=True)
class Text(Shape):
    """The shape of a string.

    Attributes:
        choices: the allowed values; empty for any string.
        format: the ``format`` of JSON Schema; "" for none. It is not checked.
    """

    choices: tuple[str, ...] = ()
    format: str = ""

    def problems(self, value: Any, path: str) -> Iterator[Problem]:
        if not isinstance(value, str):
            yield Problem(path, f"expected a string, got {shown(value)}", self.choices)
        elif self.choices and value not in self.choices:
            yield Problem(path, f"{shown(value)} is not one of the possible values", closest(value, self.choices))

    def schema(self) -> Schema:
        return {
            "type": "string",
            **({"enum": list(self.choices)} if self.choices else {}),
            **({"format": self.format} if self.format else {}),
        }


@dataclass(frozen=True, slots=True)
class Whole(Shape):
    """The shape of a whole number.

    Attributes:
        least: the minimum.
        most: the maximum.
    """

    least: int = 0
    most: int = LAST

    def problems(self, value: Any, path: str) -> Iterator[Problem]:
        if not isinstance(value, int) or isinstance(value, bool):
            yield Problem(path, f"expected a whole number, got {shown(value)}")
        elif not self.least <= value <= self.most:
            yield Problem(path, f"{shown(value)} is out of range", (f"{self.least} to {self.most}",))

    def schema(self) -> Schema:
        return {"type": "integer", "format": "int64", "minimum": self.least, "maximum": self.most}

    def parse(self, text: str) -> Any:
        digits = text.removeprefix("-")
        return int(text) if digits.isascii() and digits.isdecimal() and len(digits) <= len(str(LAST)) else text


@dataclass(frozen=True, slots=True)
class Number(Shape):
    """The shape of a number from 0 to ``most``."""

    most: float = float(LAST)

    def problems(self, value: Any, path: str) -> Iterator[Problem]:
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            yield Problem(path, f"expected a number, got {shown(value)}")
        elif not 0 <= value <= self.most:
            yield Problem(path, f"{shown(value)} is out of range", (f"0 to {self.most:.0f}",))

    def schema(self) -> Schema:
        return {"type": "number", "minimum": 0, "maximum": self.most}


@dataclass(frozen=True, slots=True)
class Flag(Shape):
    """The shape of ``true`` or ``false``."""

    def problems(self, value: Any, path: str) -> Iterator[Problem]:
        if not isinstance(value, bool):
            yield Problem(path, f"expected true or false, got {shown(value)}", ("true", "false"))

    def schema(self) -> Schema:
        return {"type": "boolean"}

    def parse(self, text: str) -> Any:
        return {"true": True, "false": False}.get(text, text)


@dataclass(frozen=True, slots=True)
class Anything(Shape):
    """The shape of any JSON value."""

    def problems(self, value: Any, path: str) -> Iterator[Problem]:  # noqa: ARG002
        yield from ()

    def schema(self) -> Schema:
        return {}


@dataclass(frozen=True, slots=True)
class Items(Shape):
    """The shape of a list whose elements have the shape ``of``."""

    of: Shape

    def problems(self, value: Any, path: str) -> Iterator[Problem]:
        if not isinstance(value, list):
            yield Problem(path, f"expected a list, got {shown(value)}")
            return
        for index, item in enumerate(value):
            yield from self.of.problems(item, f"{path}[{index}]")

    def schema(self) -> Schema:
        return {"type": "array", "items": self.of.schema()}

    def named(self) -> Iterator[Object]:
        yield from self.of.named()


@dataclass(frozen=True, slots=True)
class MapOf(Shape):
    """The shape of an object with any keys. All values have the shape ``of``."""

    of: Shape

    def problems(self, value: Any, path: str) -> Iterator[Problem]:
        if not isinstance(value, dict):
            yield Problem(path, f"expected an object, got {shown(value)}")
            return
        for key, item in value.items():
            yield from self.of.problems(item, f"{path}.{key}" if path else key)

    def schema(self) -> Schema:
        return {"type": "object", "additionalProperties": self.of.schema()}

    def named(self) -> Iterator[Object]:
        yield from self.of.named()


@dataclass(frozen=True, slots=True)
class Null(Shape):
    """The shape of a value that has the shape ``of`` or is null."""

    of: Shape

    def problems(self, value: Any, path: str) -> Iterator[Problem]:
        if value is not None:
            yield from self.of.problems(value, path)

    def schema(self) -> Schema:
        inner = self.of.schema()
        return {**inner, "type": [inner["type"], "null"]} if "type" in inner else {"anyOf": [inner, {"type": "null"}]}

    def named(self) -> Iterator[Object]:
        yield from self.of.named()


@dataclass(frozen=True, slots=True)
class Either(Shape):
    """The shape of a value that has at least one of several shapes.

    Attributes:
        shapes: the shapes.
        expected: description of the shapes, for the error message.
    """

    shapes: tuple[Shape, ...]
    expected: str

    def problems(self, value: Any, path: str) -> Iterator[Problem]:
        if all(any(True for _ in shape.problems(value, path)) for shape in self.shapes):
            yield Problem(path, f"expected {self.expected}, got {shown(value)}")

    def schema(self) -> Schema:
        return {"anyOf": [shape.schema() for shape in self.shapes]}

    def named(self) -> Iterator[Object]:
        for shape in self.shapes:
            yield from shape.named()


@dataclass(frozen=True, slots=True)
class Object(Shape):
    """The shape of an object with known keys.

    Attributes:
        required: shapes of the keys that must be present.
        optional: shapes of the keys that may be absent.
        name: name of the schema in the OpenAPI document; "" to repeat the schema at each place where the object is
            used.
        further: the shape of the values of all other keys; None if other keys are not valid.
    """

    required: Mapping[str, Shape] = field(default_factory=dict)
    optional: Mapping[str, Shape] = field(default_factory=dict)
    name: str = ""
    further: Shape | None = None

    def problems(self, value: Any, path: str) -> Iterator[Problem]:
        if not isinstance(value, dict):
            yield Problem(path, f"expected an object, got {shown(value)}")
            return
        known = {**self.required, **self.optional}
        for key in self.required:
            if key not in value:
                yield Problem(_at(path, key), "missing")
        for key, item in value.items():
            shape = known.get(key, self.further)
            if shape is None:
                yield Problem(_at(path, key), f"unknown key {shown(key)}", closest(key, tuple(known)))
            else:
                yield from shape.problems(item, _at(path, key))

    def schema(self) -> Schema:
        return {"$ref": f"#/components/schemas/{self.name}"} if self.name else self.definition()

    def definition(self) -> Schema:
        """Return the JSON Schema of the object. (``schema`` returns a reference if the object has a name.)"""
        keys = {**self.required, **self.optional}
        return {
            "type": "object",
            "properties": {key: shape.schema() for key, shape in keys.items()},
            "required": list(self.required),
            "additionalProperties": False if self.further is None else self.further.schema(),
        }

    def named(self) -> Iterator[Object]:
        if self.name:
            yield self
        for shape in (*self.required.values(), *self.optional.values(), *([self.further] if self.further else [])):
            yield from shape.named()


def listed(of: Shape, **further: Shape) -> Object:
    """Return the shape of a list as the control API returns it: an object with ``items``, ``next`` and further keys.

    Args:
        of: the shape of each item.
        further: key -> shape of its value, for the further keys.
    """
    return Object({"items": Items(of), "next": Null(Either((Text(), Whole()), "a cursor")), **further})


def closest(value: str, possible: Sequence[str]) -> tuple[str, ...]:
    """Return the possible values for an error message; values that are similar to ``value`` come first."""
    near = get_close_matches(value[:SHOWN], possible, n=CLOSE)
    return (*near, *(each for each in possible if each not in near))


def _at(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
