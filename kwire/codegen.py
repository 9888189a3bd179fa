"""Generation and execution of Python source. The package generates functions that process one version of a message.

The engines (``engines/``) and the JSON conversion (``json/``) use this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from kwire.schema import ZERO_UUID, Field

SPACE: Mapping[str, Any] = {"ZERO_UUID": ZERO_UUID}  # names that ``Names.value`` uses


class Names:
    """The global names in the generated source of one message.

    Attributes:
        definitions: expressions by name; the source begins with these assignments.
        objects: objects of this process by name; ``run`` passes them to the source as globals.
    """

    def __init__(self) -> None:
        self.definitions: dict[str, str] = {}
        self.objects: dict[str, Any] = {}

    def define(self, name: str, expression: str) -> str:
        """Return a global name whose value in the generated source is ``expression``.

        The result is ``name``, with a number appended if ``name`` already has a different value.
        """
        base, number = name.replace("?", "t"), 1
        name = base
        while self.definitions.get(name, expression) != expression:
            number += 1
            name = f"{base}_{number}"
        self.definitions[name] = expression
        return name

    def hand_in(self, name: str, thing: Any) -> str:
        """Return a global name through which the generated source accesses an object of this process.

        Names from this method begin with an underscore; no other global name does.
        """
        base, number = f"_{name}", 1
        name = base
        while self.objects.get(name, thing) is not thing:
            number += 1
            name = f"{base}_{number}"
        self.objects[name] = thing
        return name

    def struct(self, cls: type) -> str:
        """Return the global name of a struct class."""
        return self.hand_in("".join(letter if letter.isalnum() else "_" for letter in cls.__qualname__), cls)

    def value(self, value: object) -> str:
        """Return a Python expression for an immutable value."""
        if value is None or type(value) in (bool, int, str, bytes):
            return repr(value)
        if isinstance(value, UUID) and value.int == 0:
            return "ZERO_UUID"
        return self.hand_in(f"default_{type(value).__name__}", value)

    def initial(self, field: Field) -> str:
        """Return a Python expression for the default of a field.

        Each evaluation creates a new object if the default is mutable.
        """
        if not field.is_fresh:
            return self.value(field.initial())
        return "[]" if field.kind == "array" else f"{self.struct(field.struct or object)}()"


class Lines:
    """The lines of one generated function, with the current indentation.

    Args:
        head: first line, the ``def`` statement.

    Attributes:
        lines: lines of the function so far.
        depth: current indentation, in levels of four spaces.
    """

    def __init__(self, head: str) -> None:
        self.lines = [head]
        self.depth = 1
        self._numbers: dict[str, int] = {}

    def add(self, *lines: str) -> None:
        self.lines += ["    " * self.depth + line for line in lines]

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Add the line ``head``, and indent the lines that are added inside the ``with`` block."""
        self.add(head)
        self.depth += 1
        yield
        self.depth -= 1

    def fresh(self, prefix: str) -> str:
        """Return a name for a new local variable. It begins with ``prefix``, and the function does not use it yet."""
        number = self._numbers[prefix] = self._numbers.get(prefix, 0) + 1
        return f"{prefix}{number}"

    def __str__(self) -> str:
        return "\n".join(self.lines)


def source(title: str, names: Names, functions: Iterable[Lines]) -> str:
    """Return the complete Python source of generated functions.

    Args:
        title: comment in the first line.
        names: global names, whose definitions follow.
        functions: lines of the functions.
    """
    parts = [f"# {title}", "\n".join(f"{name} = {expression}" for name, expression in names.definitions.items())]
    parts += map(str, functions)
    return "\n\n".join(part for part in parts if part) + "\n"


def run(source: str, names: Names, space: Mapping[str, Any]) -> dict[str, Any]:
    """Execute generated Python source; return its global variables by name.

    The result has the variables that the source defines, such as functions, and the variables that are passed in.

    Args:
        source: Python source.
        names: names of the source; ``names.objects`` are passed in.
        space: further globals that the source may use.
    """
    namespace = {**SPACE, **space, **names.objects}
    exec(compile(source, source.partition("\n")[0], "exec"), namespace)  # noqa: S102 - generated from a checked declaration
    return namespace


class StructFunctions:
    """The builder of Python source with one function for each struct of a message.

    Args:
        title: comment at the top of the source.

    Attributes:
        names: global names of the source.
        functions: functions of the source, in order.
    """

    def __init__(self, title: str) -> None:
        self.title = title
        self.names = Names()
        self.functions: list[Lines] = []

    def begin(self, prefix: str, arguments: str) -> tuple[str, Lines]:
        """Start a new function of the source.

        Args:
            prefix: beginning of the function's name.
            arguments: text of its parameter list.

        Returns: the name of the function, and its lines.
        """
        name = f"{prefix}_{len(self.functions)}"
        lines = Lines(f"def {name}({arguments}):")
        self.functions.append(lines)
        return name, lines

    def is_not_initial(self, name: str, field: Field) -> str:
        """Return a Python expression that is true if a field of the object ``o`` differs from its default.

        Args:
            name: name of the field's attribute.
            field: declaration of the field.
        """
        return f"o.{name} != {self.names.hand_in(f'initial_{name}', field.initial())}"

    def run(self, name: str, space: Mapping[str, Any]) -> Any:
        """Execute the source, and return the function called ``name``. ``space``: further globals that the source may
        use.
        """
        return run(source(self.title, self.names, self.functions), self.names, space)[name]
