"""Python source in the making: lines, the names that they use, and how it becomes functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from struct import Struct
from typing import Any
from uuid import UUID

from kwire.engines import runtime
from kwire.layout import Record
from kwire.schema import ZERO_UUID, Field, schema_of

CODES = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}


# What every generated source may use beside its own definitions; compiled.ORIGINS tells readers of it.
NAMES: dict[str, Any] = {
    **{name: thing for name, thing in vars(runtime).items() if not name.startswith("_")},
    "Struct": Struct,
    "unpackers": cache(runtime.Unpackers),
    "packers": cache(runtime.Packers),
    "new": object.__new__,
    "NO_TAGS": {},
    "NO_LIMIT": 2**62,
    "ZERO_UUID": ZERO_UUID,
}


@dataclass(frozen=True, slots=True)
class Way:
    """How a reader reads. ``weighed``: what arrays become is counted; ``escaped``: text that is not UTF-8 is read as
    surrogate escapes. Both cost time, so a message is read without them where that is enough.
    """

    weighed: bool = False
    escaped: bool = False

    @property
    def decode(self) -> str:
        """How bytes become text."""
        return 'decode("utf-8", "surrogateescape")' if self.escaped else "decode()"


class Names:
    """What stands above the functions of one source: definitions as text, and objects that are handed in."""

    def __init__(self) -> None:
        self.definitions: dict[str, str] = {}
        self.objects: dict[str, Any] = {}

    def define(self, name: str, expression: str) -> str:
        """A name for an expression, told apart by a number if the name stands for another one."""
        base, number = name.replace("?", "t"), 1
        name = base
        while self.definitions.get(name, expression) != expression:
            number += 1
            name = f"{base}_{number}"
        self.definitions[name] = expression
        return name

    def hand_in(self, name: str, thing: Any) -> str:
        """A name for an object of this process. It begins with an underscore, as no other name does."""
        base, number = f"_{name}", 1
        name = base
        while self.objects.get(name, thing) is not thing:
            number += 1
            name = f"{base}_{number}"
        self.objects[name] = thing
        return name

    def struct(self, cls: type) -> str:
        """The name of a struct class."""
        return self.hand_in("".join(letter if letter.isalnum() else "_" for letter in cls.__qualname__), cls)

    def value(self, value: object) -> str:
        """An immutable value as an expression."""
        if value is None or type(value) in (bool, int, str, bytes):
            return repr(value)
        if isinstance(value, UUID) and value.int == 0:
            return "ZERO_UUID"
        return self.hand_in(f"default_{type(value).__name__}", value)

    def initial(self, field: Field) -> str:
        """The default of a field as an expression; one that can be changed is made anew."""
        if not field.is_fresh:
            return self.value(field.initial())
        return "[]" if field.kind == "array" else f"{self.struct(field.struct or object)}()"


class Lines:
    """Lines of one function, indented as they come."""

    def __init__(self, head: str) -> None:
        self.lines = [head]
        self.depth = 1
        self._numbers: dict[str, int] = {}

    def add(self, *lines: str) -> None:
        self.lines += ["    " * self.depth + line for line in lines]

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """What is added inside stands below ``head``."""
        self.add(head)
        self.depth += 1
        yield
        self.depth -= 1

    def fresh(self, prefix: str) -> str:
        """A local name that is not in use yet."""
        number = self._numbers[prefix] = self._numbers.get(prefix, 0) + 1
        return f"{prefix}{number}"

    def __str__(self) -> str:
        return "\n".join(self.lines)


def source(title: str, names: Names, functions: Iterable[Lines]) -> str:
    """A whole source: definitions, then functions."""
    parts = [f"# {title}", "\n".join(f"{name} = {expression}" for name, expression in names.definitions.items())]
    parts += map(str, functions)
    return "\n\n".join(part for part in parts if part) + "\n"


def run(source: str, names: Names) -> dict[str, Any]:
    """The functions of a source by name, among everything else that it sees."""
    space = {**NAMES, **names.objects}
    exec(compile(source, source.partition("\n")[0], "exec"), space)  # noqa: S102 - generated from a checked declaration
    return space


def missing(record: Record) -> list[tuple[str, Field]]:
    """Fields of a struct that this version does not carry; they have their defaults when it is read."""
    carried = {slot.name for slot in (*record.slots, *record.tagged)}
    return [(name, field) for name, field in schema_of(record.type).fields.items() if name not in carried]
