"""Version ranges and field kinds, with which the class body of a message declares its fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from kwire.errors import SchemaError
from kwire.lazy_dataclass import dataclass

ZERO_UUID = UUID(int=0)
EXAMPLES = "0-9, 6+, 5 or none"  # examples of version ranges


@dataclass(frozen=True, slots=True)
class Versions:
    """A range of message versions.

    Attributes:
        first: first version of the range.
        last: last version of the range; None if the range is open. An empty range has ``last < first``.
    """

    first: int
    last: int | None

    @classmethod
    def parse(cls, text: str) -> Versions:
        """Parse a text such as ``"0-9"``, ``"6+"``, ``"5"`` or ``"none"``. Raises: SchemaError if the text is not a
        version range.
        """
        first, dash, last = text.partition("-")
        try:
            if text == "none":
                return NO_VERSIONS
            if text.endswith("+"):
                return cls(int(text[:-1]), None)
            versions = cls(int(first), int(last) if dash else int(first))
        except ValueError:
            raise SchemaError(f"invalid version range {text!r}: expected a form such as {EXAMPLES}") from None
        if versions.last is not None and versions.first > versions.last:
            raise SchemaError(f"invalid version range {text!r}: expected a form such as {EXAMPLES}")
        return versions

    def __contains__(self, version: int) -> bool:
        return self.first <= version and (self.last is None or version <= self.last)

    def __str__(self) -> str:
        if self == NO_VERSIONS:
            return "none"
        if self.last is None:
            return f"{self.first}+"
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"

    def covers(self, other: Versions) -> bool:
        """Return whether every version of ``other`` is in this range."""
        if other == NO_VERSIONS:
            return True
        return self.first <= other.first and (self.last is None or (other.last is not None and other.last <= self.last))


NO_VERSIONS = Versions(0, -1)
ALL_VERSIONS = Versions(0, None)

# Wire kind -> its Python type in annotations, and its default where the declaration has none.
PRIMITIVES: Mapping[str, tuple[type, object]] = {
    "bool": (bool, False),
    "int8": (int, 0),
    "int16": (int, 0),
    "uint16": (int, 0),
    "int32": (int, 0),
    "uint32": (int, 0),
    "int64": (int, 0),
    "float64": (float, 0.0),
    "uuid": (UUID, ZERO_UUID),
    "string": (str, ""),
    "bytes": (bytes, b""),
    "records": (bytes, b""),
}
NULLABLE_KINDS = frozenset({"string", "bytes", "records", "array", "struct"})


class _Unset:
    """The type of UNSET, which marks a field whose declaration has no default."""

    def __repr__(self) -> str:
        return "<unset>"


UNSET: Any = _Unset()


@dataclass(frozen=True, slots=True)
class Field:
    """A declared field. Functions of this module, such as ``Int32``, create it.

    Attributes:
        kind: wire kind, a key of PRIMITIVES, "array" or "struct".
        versions: versions that have the field.
        null: versions in which the field may be null.
        tag: tag number of a field in the tagged section; None for a field outside the tagged section.
        default: default value, which the field also has in versions that lack it; UNSET for the default of the kind.
        ignorable: True if encoding drops a value that the version cannot carry, False if encoding raises EncodeError.
        flexible: versions in which the length is compact; None for the flexible versions of the message.
        entity: Kafka's name for the kind of object that the value identifies, such as ``groupId``; "" for none.
        of: declaration of the elements of an array; None if the kind is not "array".
        struct: class of a struct; None if the kind is not "struct".
    """

    kind: str
    versions: Versions = ALL_VERSIONS
    null: Versions = NO_VERSIONS
    tag: int | None = None
    default: Any = UNSET
    ignorable: bool = False
    flexible: Versions | None = None
    entity: str = ""
    of: Field | None = None
    struct: type | None = None

    @property
    def is_fresh(self) -> bool:
        """Whether the default value is mutable, so that each message needs its own copy of the value."""
        return self.default is UNSET and self.kind in ("array", "struct")

    def initial(self) -> object:
        """Return the default value of the field. If the default is mutable, each call returns a new object."""
        if self.default is not UNSET:
            return self.default
        if self.kind == "array":
            return []
        if self.kind == "struct":
            assert self.struct is not None
            return self.struct()
        return PRIMITIVES[self.kind][1]


def _field(
    kind: str,
    versions: str | None,
    *,
    null: bool | str = False,
    tag: int | None = None,
    default: Any = UNSET,
    ignorable: bool = False,
    flexible: str | None = None,
    entity: str = "",
    of: Field | None = None,
    struct: type | None = None,
) -> Any:
    present = ALL_VERSIONS if versions is None else Versions.parse(versions)
    nullable = {True: present, False: NO_VERSIONS}[null] if isinstance(null, bool) else Versions.parse(null)
    return Field(
        kind,
        present,
        nullable,
        tag,
        default,
        ignorable,
        None if flexible is None else Versions.parse(flexible),
        entity,
        of,
        struct,
    )


def _primitive(kind: str) -> Callable[..., Any]:
    def declare(versions: str | None = None, **options: Any) -> Any:
        return _field(kind, versions, **options)

    declare.__name__ = declare.__qualname__ = kind
    declare.__doc__ = (
        f"Declare a field of wire kind ``{kind}``.\n\n"
        "``versions``: versions that have the field (default: all versions of the message). Options: ``null`` (True,\n"
        "or a version range), ``tag``, ``default``, ``ignorable``, ``flexible``, ``entity``: see ``Field``."
    )
    return declare


Bool = _primitive("bool")
Int8 = _primitive("int8")
Int16 = _primitive("int16")
UInt16 = _primitive("uint16")
Int32 = _primitive("int32")
UInt32 = _primitive("uint32")
Int64 = _primitive("int64")
Float64 = _primitive("float64")
Uuid = _primitive("uuid")
String = _primitive("string")
Bytes = _primitive("bytes")
Records = _primitive("records")


def Array(of: Any, versions: str | None = None, **options: Any) -> Any:
    """Declare an array field.

    Args:
        of: type of the elements: a struct class, or a field kind such as ``Int32``.
        versions: versions that have the field, such as ``"1+"``; None for all versions of the message.
        options: further options of a field, the same as for ``Int32``: null, tag, default, ignorable, flexible, entity.
    """
    element = Field("struct", struct=of) if isinstance(of, type) else of()
    return _field("array", versions, of=element, **options)


def Nested(struct: type, versions: str | None = None, **options: Any) -> Any:
    """Declare a field that is a struct.

    Args:
        struct: class of the struct.
        versions: versions that have the field, such as ``"1+"``; None for all versions of the message.
        options: further options of a field, the same as for ``Int32``: null, tag, default, ignorable, flexible, entity.
    """
    return _field("struct", versions, struct=struct, **options)
