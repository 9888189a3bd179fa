"""Python source that is generated: names, lines, functions of structs, and how a source is run.

The engines (``engines/``) and the JSON forms (``json/``) generate functions for each version of a message with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from kwire.schema import ZERO_UUID, Field

SPACE: Mapping[str, Any] = {"ZERO_UUID": ZERO_UUID}  # names that ``Names.value`` uses


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


def run(source: str, names: Names, space: Mapping[str, Any]) -> dict[str, Any]:
    """The functions of a source by name, among everything else that it sees. ``space``: what it may use."""
    seen = {**SPACE, **space, **names.objects}
    exec(compile(source, source.partition("\n")[0], "exec"), seen)  # noqa: S102 - generated from a checked declaration
    return seen


class StructFunctions:
    """Source with one function for each struct of a message. ``title``: the comment above it."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.names = Names()
        self.functions: list[Lines] = []

    def begin(self, prefix: str, arguments: str) -> tuple[str, Lines]:
        """The name and the lines of another function; its name begins with ``prefix``."""
        name = f"{prefix}_{len(self.functions)}"
        lines = Lines(f"def {name}({arguments}):")
        self.functions.append(lines)
        return name, lines

    def is_not_initial(self, name: str, field: Field) -> str:
        """A condition: the field of this name of ``o`` does not have its default."""
        return f"o.{name} != {self.names.hand_in(f'initial_{name}', field.initial())}"

    def run(self, name: str, space: Mapping[str, Any]) -> Any:
        """The function of this name."""
        return run(source(self.title, self.names, self.functions), self.names, space)[name]
