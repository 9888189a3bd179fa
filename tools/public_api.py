"""The public names of kwire and mockbroker with their signatures, one a line: what docs/stability.md promises.

    python tools/public_api.py tests/public_api.txt

writes them into a file, at a release. tests/test_public_api.py compares the file with the code.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Iterator
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import get_args

MODULES = ("kwire", "kwire.assignors", "mockbroker", "mockbroker.consumer")


def api() -> dict[str, str]:
    """Return the signature of each public name; the parameters of a function, the members of a class."""
    return dict(line for module in MODULES for line in _module(module))


def _module(name: str) -> Iterator[tuple[str, str]]:
    module = import_module(name)
    for public in sorted(module.__all__):
        value = getattr(module, public)
        path = f"{name}.{public}"
        if inspect.isclass(value):
            yield path, f"class {_bases(value)}"
            yield from _class(path, value)
        elif callable(value) and not get_args(value):
            yield path, _signature(value)
        else:
            yield path, " | ".join(map(str, get_args(value))) or type(value).__name__


def _bases(described: type) -> str:
    return ", ".join(base.__name__ for base in described.__mro__[1:-1] if base.__module__ == "builtins")


def _class(path: str, described: type) -> Iterator[tuple[str, str]]:
    if issubclass(described, Enum):
        yield from ((f"{path}.{name}", repr(member.value)) for name, member in described.__members__.items())
        return
    if dataclasses.is_dataclass(described):
        for field in dataclasses.fields(described):
            has_default = field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
            yield f"{path}.{field.name}", f"field{' with default' if has_default else ''}"
    for name in sorted(dir(described)):
        if name.startswith("_") or (issubclass(described, BaseException) and hasattr(BaseException, name)):
            continue
        value = inspect.getattr_static(described, name)
        if isinstance(value, property):
            yield f"{path}.{name}", "property"
        elif callable(value) or isinstance(value, (staticmethod, classmethod)):
            yield f"{path}.{name}", _signature(getattr(described, name))


def _signature(function: object) -> str:
    """Return the parameters with their kinds, and whether they have defaults: not annotations, which may improve."""
    try:
        parameters = inspect.signature(function).parameters.values()  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return "callable"
    stars: dict[object, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    words = []
    keyword_only = False
    for each in parameters:
        keyword_only |= each.kind is inspect.Parameter.VAR_POSITIONAL
        if each.kind is inspect.Parameter.KEYWORD_ONLY and not keyword_only:
            keyword_only = True
            words.append("*")
        default = "=" if each.default is not inspect.Parameter.empty else ""
        words.append(f"{stars.get(each.kind, '')}{each.name}{default}")
    return f"({', '.join(words)})"


def text() -> str:
    return "".join(f"{name}: {signature}\n" for name, signature in api().items())


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(text(), "utf-8")
