"""What is known of a declared message or struct: ``schema_of`` returns it; and the Api that messages belong to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kwire.errors import SchemaError
from kwire.schema.fields import Field, Versions


@dataclass(frozen=True, slots=True)
class Schema:
    """What a decorator found in a class body; ``versions`` and ``flexible`` are None for a nested struct."""

    name: str
    fields: Mapping[str, Field]
    versions: Versions | None = None
    flexible: Versions | None = None
    api: Api | None = None


class Api:
    """One API: its key, versions, and the request and response classes that name it in their decorators.

    ``name`` is Kafka's, without "Request" or "Response".
    """

    request: type[Any]
    response: type[Any]

    def __init__(self, key: int, *, versions: str, flexible: str) -> None:
        self.key = key
        self.versions = Versions.parse(versions)
        self.flexible = Versions.parse(flexible)

    @property
    def name(self) -> str:
        return self.request.__name__.removesuffix("Request")

    def __repr__(self) -> str:
        return f"<Api {self.key} {self.name} v{self.versions}>"


def schema_of(message: type) -> Schema:
    """The declaration behind a class. Raises: SchemaError if it has none."""
    schema = getattr(message, "__kafka__", None)
    if not isinstance(schema, Schema):
        raise SchemaError(f"{message!r} is not a declared message or struct")
    return schema


def unknown_tags(value: object) -> Mapping[int, bytes]:
    """Tagged fields of one decoded struct that its declaration does not know, by tag. They survive a round trip."""
    found: dict[int, bytes] | None = getattr(value, "unknown_tags", None)
    return found or {}
