"""Iteration over the fields of a message, including the fields of nested structs."""

from __future__ import annotations

from collections.abc import Iterator

from kwire.schema import Field, schema_of


def fields_of(struct: type) -> Iterator[tuple[str, Field]]:
    """Yield the path (such as ``topics.name``) and the declaration of every field of a message (``struct``), in all
    versions.
    """
    for name, field in schema_of(struct).fields.items():
        yield name, field
        inner = field.of.struct if field.of is not None else field.struct
        if inner is not None:
            yield from ((f"{name}.{path}", below) for path, below in fields_of(inner))
