"""The decorators that turn a class body into a message class."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar, dataclass_transform

from kwire.errors import SchemaError
from kwire.schema.checks import check_field
from kwire.schema.classes import slots_class
from kwire.schema.fields import Field, Versions
from kwire.schema.model import Api, Schema

T = TypeVar("T")


@dataclass_transform(kw_only_default=True)
def struct(cls: type[T]) -> type[T]:
    """Declare a class as a struct that is nested in messages. Its versions are the versions of the message that
    contains it.

    Raises: SchemaError if the declaration is not valid.
    """
    return _declare(cls)


@dataclass_transform(kw_only_default=True)
def request(api: Api) -> Callable[[type[T]], type[T]]:
    """Return a decorator that declares a class as the request of ``api``, and sets ``api.request`` to this class.

    Raises: SchemaError if a field breaks a rule.
    """

    def declare(cls: type[T]) -> type[T]:
        api.request = declared = _declare(cls, api.versions, api.flexible, api)
        return declared

    return declare


@dataclass_transform(kw_only_default=True)
def response(api: Api) -> Callable[[type[T]], type[T]]:
    """Return a decorator that declares a class as the response of ``api``, and sets ``api.response`` to this class.

    Raises: SchemaError if a field breaks a rule.
    """

    def declare(cls: type[T]) -> type[T]:
        api.response = declared = _declare(cls, api.versions, api.flexible, api)
        return declared

    return declare


@dataclass_transform(kw_only_default=True)
def data(*, versions: str, flexible: str) -> Callable[[type[T]], type[T]]:
    """Return a decorator that declares a message that is stored inside other messages or in a log.

    Args:
        versions: versions of the message, such as ``"0-3"``.
        flexible: versions with compact lengths and tagged fields, such as ``"2+"`` or ``"none"``.

    Raises: SchemaError if an argument is not a version range, or if a field breaks a rule.
    """
    return lambda cls: _declare(cls, Versions.parse(versions), Versions.parse(flexible))


def _declare(
    cls: type[T], versions: Versions | None = None, flexible: Versions | None = None, api: Api | None = None
) -> type[T]:
    if any("__kafka__" in vars(base) for base in cls.__mro__[1:]):
        raise SchemaError(f"{cls.__name__}: message classes cannot be subclassed")
    if versions is not None and versions.last is None:
        raise SchemaError(f"{cls.__name__}: a message needs a closed version range, got {versions}")
    annotations: dict[str, Any] = inspect.get_annotations(cls)
    fields: dict[str, Field] = {}
    for name, annotation in annotations.items():
        field = cls.__dict__.get(name)
        if not isinstance(field, Field):
            raise SchemaError(f"{cls.__name__}.{name} has no field kind: assign one, such as Int32() or String()")
        if name.startswith("_") or name in ("self", "unknown_tags") or not name.isascii():
            raise SchemaError(f"{cls.__name__}.{name}: invalid field name: use ASCII, no leading underscore")
        check_field(f"{cls.__name__}.{name}", field, annotation, versions, flexible)
        fields[name] = field
    tags = [field.tag for field in fields.values() if field.tag is not None]
    if sorted(tags) != list(range(len(tags))):
        raise SchemaError(f"{cls.__name__}: tags must be 0 to {len(tags) - 1}, each once, got {tags}")
    schema = Schema(cls.__name__, fields, versions, flexible, api)
    return slots_class(cls, {**annotations, "unknown_tags": "dict[int, bytes] | None"}, schema)
