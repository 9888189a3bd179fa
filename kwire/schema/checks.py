"""Checks of declared fields against the rules of Kafka's ``FieldSpec`` and ``MessageSpec``."""

from __future__ import annotations

import types
from typing import Any

from kwire.errors import SchemaError
from kwire.schema.fields import (
    ALL_VERSIONS,
    NO_VERSIONS,
    NULLABLE_KINDS,
    PRIMITIVES,
    UNSET,
    Field,
    Versions,
)


def check_field(
    where: str, field: Field, annotation: object, versions: Versions | None, flexible: Versions | None
) -> None:
    """Check one field of a message or struct against Kafka's rules.

    Args:
        where: names of class and field; the error message begins with this text.
        field: declaration of the field.
        annotation: type annotation of the field in the class body.
        versions: versions of the message; None for a nested struct.
        flexible: flexible versions of the message; None for a nested struct.

    Raises: SchemaError if the field breaks a rule.
    """
    if versions is not None and field.versions not in (ALL_VERSIONS, NO_VERSIONS):
        inside = Versions(field.versions.first, versions.last if field.versions.last is None else field.versions.last)
        if not versions.covers(inside) or (inside.last is not None and inside.first > inside.last):
            raise SchemaError(
                f"{where}: the versions {field.versions} of the field exceed the versions {versions} of the message"
            )
    if field.null != NO_VERSIONS:
        if field.kind not in NULLABLE_KINDS:
            raise SchemaError(f"{where}: a field of kind {field.kind} cannot be null: remove null")
        if not field.versions.covers(field.null):
            raise SchemaError(
                f"{where}: the field is nullable in versions {field.null}, but exists only in {field.versions}"
            )
    elif field.default is None:
        raise SchemaError(f"{where}: the default is null, but no version allows null: set null, or another default")
    if field.tag is not None and flexible is not None and not flexible.covers(field.versions):
        raise SchemaError(
            f"{where}: the field is tagged in versions {field.versions}, but the message is flexible only in {flexible}"
        )
    expected = _python_type(field)
    if field.default is not UNSET and field.default is not None:
        _check_default(where, field)
    if isinstance(annotation, str):
        raise SchemaError(
            f"{where}: annotation is a string: remove `from __future__ import annotations` from modules that declare"
            " messages"
        )
    if annotation != expected:
        raise SchemaError(f"{where}: the annotation is {annotation}, but a field of kind {field.kind} needs {expected}")


_BITS = {"int8": 8, "int16": 16, "uint16": 16, "int32": 32, "uint32": 32, "int64": 64}


def _check_default(where: str, field: Field) -> None:
    if field.kind not in PRIMITIVES:
        raise SchemaError(
            f"{where}: default {field.default!r} is not allowed for {field.kind}: use None or leave it out"
        )
    fits = typed = type(field.default) is PRIMITIVES[field.kind][0]
    if typed and field.kind in _BITS:
        low = 0 if field.kind.startswith("u") else -(2 ** (_BITS[field.kind] - 1))
        fits = low <= field.default < low + 2 ** _BITS[field.kind]
    if not fits:
        problem = "is out of range for" if typed else "is not of type"
        raise SchemaError(f"{where}: default {field.default!r} {problem} {field.kind}")


def _python_type(field: Field) -> Any:
    if field.kind == "array":
        assert field.of is not None
        base: Any = types.GenericAlias(list, (_python_type(field.of),))
    elif field.kind == "struct":
        base = field.struct
    else:
        base = PRIMITIVES[field.kind][0]
    return base | None if field.null != NO_VERSIONS else base
