"""The class that a declaration becomes: slots, and the methods of a dataclass.

``dataclasses`` makes the same, ten times slower: there are a thousand structs, and a program wants a few.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from operator import attrgetter
from typing import Any, TypeVar, cast

from kwire.schema.fields import UNSET, Field
from kwire.schema.model import Schema, schema_of

T = TypeVar("T")


def slots_class(cls: type[T], annotations: Mapping[str, Any], schema: Schema) -> type[T]:
    """Build the class again, with slots and the methods of a dataclass. ``annotations``: of its fields."""
    names = (*schema.fields, "unknown_tags")
    body = {key: value for key, value in vars(cls).items() if key not in schema.fields}
    body.pop("__dict__", None)
    body.pop("__weakref__", None)
    make: Any = type(cls)
    made = make(
        cls.__name__, cls.__bases__, {**body, "__slots__": names, "__annotations__": annotations, "__match_args__": ()}
    )
    made.__qualname__ = cls.__qualname__
    made.__kafka__ = schema
    made.__dataclass_fields__ = _Dataclass("__dataclass_fields__")
    made.__dataclass_params__ = _Dataclass("__dataclass_params__")
    made.__hash__ = None
    made.__signature__ = _Signature()
    for method in (_first_init(made), *_methods(names)):
        if method.__name__ not in body:
            _belongs(method, made)
            setattr(made, method.__name__, method)
    return cast("type[T]", made)


def _belongs(method: Any, cls: type) -> None:
    method.__qualname__ = f"{cls.__qualname__}.{method.__name__}"
    method.__module__ = cls.__module__


def _first_init(cls: Any) -> Any:
    """A constructor that makes the real one when it is called: most structs are declared, and never made by hand."""

    def __init__(self: Any, *args: Any, **values: Any) -> None:  # noqa: N807 - the name it gets
        cls.__init__ = init = _init(schema_of(cls).fields)
        _belongs(init, cls)
        init(self, *args, **values)

    return __init__


class _Signature:
    """What ``inspect.signature`` looks for: that of the real constructor."""

    def __get__(self, _: object, cls: Any) -> inspect.Signature:
        parameters = list(inspect.signature(_init(schema_of(cls).fields)).parameters.values())
        return inspect.Signature(parameters[1:])


def _init(fields: Mapping[str, Field]) -> Any:
    """The constructor of a slots class: keywords only, each with its default."""
    fresh = {name for name, field in fields.items() if field.is_fresh}
    space: dict[str, Any] = {
        f"_{name}": (list if f.kind == "array" else f.struct) if name in fresh else f.initial()
        for name, f in fields.items()
    }
    arguments = [f"{name}=_" if name in fresh else f"{name}=_{name}" for name in fields]
    stores = [
        f"\n self.{name} = _{name}() if {name} is _ else {name}" if name in fresh else f"\n self.{name} = {name}"
        for name in fields
    ]
    head = f"def __init__(self, *, {', '.join([*arguments, 'unknown_tags=None'])}):\n self.unknown_tags = unknown_tags"
    space["_"] = UNSET
    exec(head + "".join(stores), space)  # noqa: S102 - made of checked field names
    return space["__init__"]


def _methods(names: tuple[str, ...]) -> tuple[Any, ...]:
    """What else a dataclass has. ``names``: of all slots, unknown_tags last."""
    values: Any = attrgetter(*names) if len(names) > 1 else lambda self: (self.unknown_tags,)

    def __eq__(self: Any, other: object) -> Any:  # noqa: N807 - the name it gets
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    def __repr__(self: Any) -> str:  # noqa: N807
        *known, unknown = zip(names, values(self), strict=True)
        shown = [*known, unknown] if unknown[1] else known
        return f"{self.__class__.__qualname__}({', '.join(f'{name}={value!r}' for name, value in shown)})"

    def __replace__(self: Any, **changes: Any) -> Any:  # noqa: N807
        return self.__class__(**{**dict(zip(names, values(self), strict=True)), **changes})

    return __eq__, __repr__, __replace__


class _Dataclass:
    """What ``dataclasses`` and ``pprint`` look for in a class; made when one is asked for, both take its place."""

    def __init__(self, attribute: str) -> None:
        self.attribute = attribute
        self.made: dict[type, Any] = {}

    def __get__(self, _: object, cls: Any) -> Any:
        if cls not in self.made:
            self.made[cls] = self._make(cls)
        return self.made[cls]

    def _make(self, cls: Any) -> Any:
        specs: list[Any] = [
            (name, object, dataclasses.field(default_factory=each.initial) if each.is_fresh else each.initial())
            for name, each in schema_of(cls).fields.items()
        ]
        specs.append(("unknown_tags", object, dataclasses.field(default=None, repr=False)))
        made: Any = dataclasses.make_dataclass(cls.__name__, specs, kw_only=True)
        for name, field in made.__dataclass_fields__.items():
            field.type = cls.__annotations__.get(name, object)
        cls.__dataclass_fields__ = made.__dataclass_fields__
        cls.__dataclass_params__ = made.__dataclass_params__
        return vars(cls)[self.attribute]
