"""The fields of messages, including the fields of nested structs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from kwire.messages import APIS
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


@cache
def kinds_of_fields() -> Mapping[str, frozenset[str]]:
    """Return the kinds that each field of a request or response has, such as ``array``, by the path of the field."""
    kinds: dict[str, set[str]] = {}
    for api in APIS.values():
        for message in (api.request, api.response):
            for path, field in fields_of(message):
                kinds.setdefault(path, set()).add(field.kind)
    return {path: frozenset(found) for path, found in kinds.items()}
