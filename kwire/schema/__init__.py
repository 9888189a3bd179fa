"""How a message is declared: versions, field kinds, and the decorators that turn a class body into a typed value.

A declaration is schema, typed value and page of the manual at once (docs/design.md shows one). Silence is the common
case: a field without versions is in every version of its message, and compact lengths and tagged sections follow from
the message's flexible versions. Rules are those of Kafka's ``FieldSpec`` and ``MessageSpec``; a declaration that breaks
them raises SchemaError at import.

This package knows nothing of bytes: ``layout`` does.
"""

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
    "data",
    "request",
    "response",
    "schema_of",
    "struct",
    "unknown_tags",
]
