"""The declaration of messages: versions, field kinds, and the decorators that turn a class body into a message class.

A declaration is schema, typed class and documentation in one (docs/design.md shows an example). A field without
versions is in every version of its message. Compact lengths and tagged sections follow from the flexible versions of
the message. The rules are those of Kafka's ``FieldSpec`` and ``MessageSpec``. A declaration that breaks a rule raises
SchemaError at import. ``kwire.layout`` defines the encoding.
"""

from kwire.schema.classes import compares_by_fields
from kwire.schema.declare import data, request, response, struct
from kwire.schema.fields import (
    ALL_VERSIONS,
    NO_VERSIONS,
    ZERO_UUID,
    Array,
    Bool,
    Bytes,
    Field,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Nested,
    Records,
    String,
    UInt16,
    UInt32,
    Uuid,
    Versions,
)
from kwire.schema.model import Api, Schema, schema_of, unknown_tags

__all__ = [
    "ALL_VERSIONS",
    "NO_VERSIONS",
    "ZERO_UUID",
    "Api",
    "Array",
    "Bool",
    "Bytes",
    "Field",
    "Float64",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "Nested",
    "Records",
    "Schema",
    "String",
    "UInt16",
    "UInt32",
    "Uuid",
    "Versions",
    "compares_by_fields",
    "data",
    "request",
    "response",
    "schema_of",
    "struct",
    "unknown_tags",
]
