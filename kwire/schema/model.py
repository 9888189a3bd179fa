"""The class Schema, which describes a message or struct, and the class Api, which describes an API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kwire.errors import SchemaError
from kwire.lazy_dataclass import dataclass
from kwire.schema.fields import Field, Versions


@dataclass(frozen=True, slots=True)
class Schema:
    """The declaration of a message or struct. ``schema_of`` returns it for a class.

    Attributes:
        name: name of the class.
        fields: declared fields by name, in wire order.
        versions: versions of a message; None for a nested struct.
        flexible: versions with compact lengths and tagged fields; None for a nested struct.
        api: API of a request or response; None for a stored message or a nested struct.
    """

    name: str
    fields: Mapping[str, Field]
    versions: Versions | None = None
    flexible: Versions | None = None
    api: Api | None = None


class Api:
    """An API of Kafka's protocol, with its request and response classes.

    Attributes:
        key: API key.
        versions: versions of the request and the response; as an argument a text, such as ``"0-9"``.
        flexible: versions with compact lengths and tagged fields; as an argument a text, such as ``"6+"`` or
            ``"none"``.
        request: class of the request, which the decorator ``request`` sets.
        response: class of the response, which the decorator ``response`` sets.
        name: Kafka's name of the API, such as ``JoinGroup``: without "Request" or "Response".
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

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how copy and pickle restore the API: there is only one object for each, which its request names."""
        return _declared_api, (self.request,)


def schema_of(message: type) -> Schema:
    """Return the declaration of a message class. Raises: SchemaError for a class that is not a message or struct."""
    schema = getattr(message, "__kafka__", None)
    if not isinstance(schema, Schema):
        raise SchemaError(
            f"{message!r} is not a declared message or struct: declare the class with request, response, data or struct"
        )
    return schema


def _declared_api(request: type) -> Api:
    api = schema_of(request).api
    assert api is not None
    return api


def unknown_tags(value: object) -> Mapping[int, bytes]:
    """Return the tagged fields of a decoded struct that kwire does not declare: bytes by tag number.

    When the struct is encoded, these fields are written again.
    """
    tags: dict[int, bytes] | None = getattr(value, "unknown_tags", None)
    return tags or {}
