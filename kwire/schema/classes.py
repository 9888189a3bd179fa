"""Construction of message classes, with slots and the methods of a dataclass.

``dataclasses`` would build the same classes ten times slower. kwire declares a thousand structs, and a program uses
only a few of them.
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
    """Return a copy of a class with slots and the methods of a dataclass.

    Args:
        cls: class whose body declares the fields.
        annotations: type annotations of the fields, by name.
        schema: declaration of the message or struct.
    """
    names = (*schema.fields, "unknown_tags")
    body = {key: value for key, value in vars(cls).items() if key not in schema.fields}
    body.pop("__dict__", None)
    body.pop("__weakref__", None)
    make: Any = type(cls)
    result = make(
        cls.__name__, cls.__bases__, {**body, "__slots__": names, "__annotations__": annotations, "__match_args__": ()}
    )
    result.__qualname__ = cls.__qualname__
    result.__kafka__ = schema
    result.__dataclass_fields__ = _Dataclass("__dataclass_fields__")
    result.__dataclass_params__ = _Dataclass("__dataclass_params__")
    result.__hash__ = None
    result.__signature__ = _Signature()
    for method in (_first_init(result), *_methods(names)):
        if method.__name__ not in body:
            _set_owner(method, result)
            setattr(result, method.__name__, method)
    return cast("type[T]", result)


def _set_owner(method: Any, cls: type) -> None:
    method.__qualname__ = f"{cls.__qualname__}.{method.__name__}"
    method.__module__ = cls.__module__


def _first_init(cls: Any) -> Any:
    """Return a placeholder for ``__init__``. Its first call generates the real ``__init__`` and calls it.

    This makes imports faster, because a program calls the constructors of only a few struct classes.
    """

    def __init__(self: Any, *args: Any, **values: Any) -> None:  # noqa: N807 - name of the method
        cls.__init__ = init = _init(schema_of(cls).fields)
        _set_owner(init, cls)
        init(self, *args, **values)

    return __init__


class _Signature:
    """A descriptor that computes ``__signature__`` for ``inspect.signature``.

    The signature has the keyword arguments of the constructor.
    """

    def __get__(self, _: object, cls: Any) -> inspect.Signature:
        parameters = list(inspect.signature(_init(schema_of(cls).fields)).parameters.values())
        return inspect.Signature(parameters[1:])


def _init(fields: Mapping[str, Field]) -> Any:
    """Generate the constructor of a slots class. Its arguments are keyword-only and have defaults."""
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
    exec(head + "".join(stores), space)  # noqa: S102 - result of checked field names
    return space["__init__"]


def _methods(names: tuple[str, ...]) -> tuple[Any, ...]:
    """Return the methods ``__eq__``, ``__repr__`` and ``__replace__`` of a dataclass, in this order.

    ``names``: names of all slots, with unknown_tags as the last.
    """
    values: Any = attrgetter(*names) if len(names) > 1 else lambda self: (self.unknown_tags,)

    def __eq__(self: Any, other: object) -> Any:  # noqa: N807 - name of the method
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    def __repr__(self: Any) -> str:  # noqa: N807
        *fields, unknown = zip(names, values(self), strict=True)
        shown = [*fields, unknown] if unknown[1] else fields
        return f"{self.__class__.__qualname__}({', '.join(f'{name}={value!r}' for name, value in shown)})"

    def __replace__(self: Any, **changes: Any) -> Any:  # noqa: N807
        return self.__class__(**{**dict(zip(names, values(self), strict=True)), **changes})

    return __eq__, __repr__, __replace__


_GENERATED_EQ = _methods(("first", "second"))[0].__code__


def compares_by_fields(cls: type) -> bool:
    """Return whether a class still has the ``__eq__`` that ``slots_class`` generated."""
    return getattr(cls.__eq__, "__code__", None) is _GENERATED_EQ


class _Dataclass:
    """A descriptor for the attributes that ``dataclasses`` and ``pprint`` read.

    The first access computes the value and stores it in the class.

    Args:
        attribute: name of the attribute: ``__dataclass_fields__`` or ``__dataclass_params__``.
    """

    def __init__(self, attribute: str) -> None:
        self.attribute = attribute
        self.values: dict[type, Any] = {}

    def __get__(self, _: object, cls: Any) -> Any:
        if cls not in self.values:
            self.values[cls] = self._make(cls)
        return self.values[cls]

    def _make(self, cls: Any) -> Any:
        specs: list[Any] = [
            (name, object, dataclasses.field(default_factory=each.initial) if each.is_fresh else each.initial())
            for name, each in schema_of(cls).fields.items()
        ]
        specs.append(("unknown_tags", object, dataclasses.field(default=None, repr=False)))
        result: Any = dataclasses.make_dataclass(cls.__name__, specs, kw_only=True)
        for name, field in result.__dataclass_fields__.items():
            field.type = cls.__annotations__.get(name, object)
        cls.__dataclass_fields__ = result.__dataclass_fields__
        cls.__dataclass_params__ = result.__dataclass_params__
        return vars(cls)[self.attribute]
