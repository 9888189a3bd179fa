"""The declaration of a message or struct (``schema_of`` returns it), and the API that a message belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kwire.errors import SchemaError
from kwire.schema.fields import Field, Versions


@dataclass(frozen=True, slots=True)
class Schema:
    """The declaration of a message or struct.

    Attributes:
        name: name of the class.
        fields: declared fields by name, in wire order.
        versions: versions of a message; None for a nested struct.
        flexible: versions with compact lengths and tagged fields; None for a nested struct.
        api: API of a request or response; None for other messages and structs.
    """

    name: str
    fields: Mapping[str, Field]
    versions: Versions | None = None
    flexible: Versions | None = None
    api: Api | None = None


class Api:
    """An API: its key, its versions, its request and response classes.

    Attributes:
        request: class of the request; set by the decorator ``request``.
        response: class of the response; set by the decorator ``response``.
        name: Kafka's name, without "Request" or "Response".
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
    """Return the declaration of a message class. Raises: SchemaError for a class that is not a message or struct."""
    schema = getattr(message, "__kafka__", None)
    if not isinstance(schema, Schema):
        raise SchemaError(
            f"{message!r} is not a declared message or struct: declare the class with request, response, data or struct"
        )
    return schema


def unknown_tags(value: object) -> Mapping[int, bytes]:
    """Return the undeclared tagged fields of a decoded struct: bytes by tag number.

    They are written again when the struct is encoded.
    """
    tags: dict[int, bytes] | None = getattr(value, "unknown_tags", None)
    return tags or {}
