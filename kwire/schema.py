"""How a message is declared: versions, field kinds, and the decorators that turn a class body into a typed value.

A declaration is schema, typed value and page of the manual at once (docs/design.md shows one). Silence is the common
case: a field without versions is in every version of its message, and compact lengths and tagged sections follow from
the message's flexible versions. Rules are those of Kafka's ``FieldSpec`` and ``MessageSpec``; a declaration that breaks
them raises SchemaError at import.

This file knows nothing of bytes: ``layout`` does.
"""

from __future__ import annotations

import dataclasses
import inspect
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, TypeVar, cast, dataclass_transform
from uuid import UUID

from kwire.errors import SchemaError

T = TypeVar("T")
ZERO_UUID = UUID(int=0)


@dataclass(frozen=True, slots=True)
class Versions:
    """A range of versions, both ends included; ``last`` None is open, an empty range has ``last < first``."""

    first: int
    last: int | None

    @classmethod
    def parse(cls, text: str) -> Versions:
        """``"0-9"``, ``"6+"``, ``"5"`` or ``"none"``. Raises: SchemaError."""
        first, dash, last = text.partition("-")
        try:
            if text == "none":
                return NO_VERSIONS
            if text.endswith("+"):
                return cls(int(text[:-1]), None)
            found = cls(int(first), int(last) if dash else int(first))
        except ValueError:
            raise SchemaError(f"not a version range: {text!r}") from None
        if found.last is not None and found.first > found.last:
            raise SchemaError(f"not a version range: {text!r}")
        return found

    def __contains__(self, version: int) -> bool:
        return self.first <= version and (self.last is None or version <= self.last)

    def __str__(self) -> str:
        if self == NO_VERSIONS:
            return "none"
        if self.last is None:
            return f"{self.first}+"
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"

    def covers(self, other: Versions) -> bool:
        """True if every version of ``other`` is in this range."""
        if other == NO_VERSIONS:
            return True
        return self.first <= other.first and (self.last is None or (other.last is not None and other.last <= self.last))


NO_VERSIONS = Versions(0, -1)
ALL_VERSIONS = Versions(0, None)

# Wire kind -> the Python type that annotates it and the value it has when nobody says otherwise.
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
    def __repr__(self) -> str:
        return "<unset>"


UNSET: Any = _Unset()


@dataclass(frozen=True, slots=True)
class Field:
    """One declared field. Made by the kind functions below, never by hand."""

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
        """True if every value needs a default of its own, because it can be changed."""
        return self.default is UNSET and self.kind in ("array", "struct")

    def initial(self) -> object:
        """A fresh default value."""
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
        f"A field of wire kind ``{kind}``.\n\n"
        "``versions``: where it is present (all, if silent). Options: ``null`` (True, or a version range), ``tag``,\n"
        "``default``, ``ignorable``, ``entity`` (Kafka's name for what the value identifies)."
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
    """A list of ``of``: a struct class, or a kind such as ``Int32``. Options as for the other kinds."""
    element = Field("struct", struct=of) if isinstance(of, type) else of()
    return _field("array", versions, of=element, **options)


def Nested(struct: type, versions: str | None = None, **options: Any) -> Any:
    """One struct inside another. Options as for the other kinds."""
    return _field("struct", versions, struct=struct, **options)


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


@dataclass_transform(kw_only_default=True)
def struct(cls: type[T]) -> type[T]:
    """Declare a struct that lives inside messages; it takes their version."""
    return _declare(cls)


@dataclass_transform(kw_only_default=True)
def request(api: Api) -> Callable[[type[T]], type[T]]:
    """Declare the request of an API."""

    def declare(cls: type[T]) -> type[T]:
        api.request = declared = _declare(cls, api.versions, api.flexible, api)
        return declared

    return declare


@dataclass_transform(kw_only_default=True)
def response(api: Api) -> Callable[[type[T]], type[T]]:
    """Declare the response of an API."""

    def declare(cls: type[T]) -> type[T]:
        api.response = declared = _declare(cls, api.versions, api.flexible, api)
        return declared

    return declare


@dataclass_transform(kw_only_default=True)
def data(*, versions: str, flexible: str) -> Callable[[type[T]], type[T]]:
    """Declare a message that travels inside others, or in a log, under a version of its own."""
    return lambda cls: _declare(cls, Versions.parse(versions), Versions.parse(flexible))


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


def _declare(
    cls: type[T], versions: Versions | None = None, flexible: Versions | None = None, api: Api | None = None
) -> type[T]:
    if any("__kafka__" in vars(base) for base in cls.__mro__[1:]):
        raise SchemaError(f"{cls.__name__}: a declaration cannot go on from another")
    if versions is not None and versions.last is None:
        raise SchemaError(f"{cls.__name__}: the versions of a message have an end, {versions} has none")
    annotations: dict[str, Any] = inspect.get_annotations(cls)
    fields: dict[str, Field] = {}
    for name, annotation in annotations.items():
        field = cls.__dict__.get(name)
        if not isinstance(field, Field):
            raise SchemaError(f"{cls.__name__}.{name} has no field kind")
        if name.startswith("_") or name in ("self", "unknown_tags") or not name.isascii():
            raise SchemaError(f"{cls.__name__}.{name}: no field can be called that")
        _check(f"{cls.__name__}.{name}", field, annotation, versions, flexible)
        fields[name] = field
    tags = [field.tag for field in fields.values() if field.tag is not None]
    if sorted(tags) != list(range(len(tags))):
        raise SchemaError(f"{cls.__name__}: tags must be 0 to {len(tags) - 1}, each once, not {tags}")
    schema = Schema(cls.__name__, fields, versions, flexible, api)
    return _slots_class(cls, {**annotations, "unknown_tags": "dict[int, bytes] | None"}, schema)


def _slots_class(cls: type[T], annotations: Mapping[str, Any], schema: Schema) -> type[T]:
    """The class again, with slots and the methods of a dataclass.

    ``dataclasses`` makes the same, ten times slower: there are a thousand structs, and a program wants a few.
    """
    names = (*schema.fields, "unknown_tags")
    body = {key: value for key, value in vars(cls).items() if key not in schema.fields}
    body.pop("__dict__", None)
    body.pop("__weakref__", None)
    make: Any = type(cls)
    made = make(
        cls.__name__, cls.__bases__, {**body, "__slots__": names, "__annotations__": annotations, "__match_args__": ()}
    )
    made.__qualname__ = cls.__qualname__
    made.__kafka__ = schema
    made.__dataclass_fields__ = _Dataclass("__dataclass_fields__")
    made.__dataclass_params__ = _Dataclass("__dataclass_params__")
    made.__hash__ = None
    made.__signature__ = _Signature()
    for method in (_first_init(made), *_methods(names)):
        if method.__name__ not in body:
            _belongs(method, made)
            setattr(made, method.__name__, method)
    return cast("type[T]", made)


def _belongs(method: Any, cls: type) -> None:
    method.__qualname__ = f"{cls.__qualname__}.{method.__name__}"
    method.__module__ = cls.__module__


def _first_init(cls: Any) -> Any:
    """A constructor that makes the real one when it is called: most structs are declared, and never made by hand."""

    def __init__(self: Any, *args: Any, **values: Any) -> None:  # noqa: N807 - the name it gets
        cls.__init__ = init = _init(schema_of(cls).fields)
        _belongs(init, cls)
        init(self, *args, **values)

    return __init__


class _Signature:
    """What ``inspect.signature`` looks for: that of the real constructor."""

    def __get__(self, _: object, cls: Any) -> inspect.Signature:
        parameters = list(inspect.signature(_init(schema_of(cls).fields)).parameters.values())
        return inspect.Signature(parameters[1:])


def _init(fields: Mapping[str, Field]) -> Any:
    """The constructor of a slots class: keywords only, each with its default."""
    fresh = {name for name, field in fields.items() if field.is_fresh}
    space: dict[str, Any] = {
        f"_{name}": (list if f.kind == "array" else f.struct) if name in fresh else f.initial()
        for name, f in fields.items()
    }
    arguments = [f"{name}=_" if name in fresh else f"{name}=_{name}" for name in fields]
    stores = [
        f"\n self.{name} = _{name}() if {name} is _ else {name}" if name in fresh else f"\n self.{name} = {name}"
        for name in fields
    ]
    head = f"def __init__(self, *, {', '.join([*arguments, 'unknown_tags=None'])}):\n self.unknown_tags = unknown_tags"
    space["_"] = UNSET
    exec(head + "".join(stores), space)  # noqa: S102 - made of checked field names
    return space["__init__"]


def _methods(names: tuple[str, ...]) -> tuple[Any, ...]:
    """What else a dataclass has. ``names``: of all slots, unknown_tags last."""
    values: Any = attrgetter(*names) if len(names) > 1 else lambda self: (self.unknown_tags,)

    def __eq__(self: Any, other: object) -> Any:  # noqa: N807 - the name it gets
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    def __repr__(self: Any) -> str:  # noqa: N807
        *known, unknown = zip(names, values(self), strict=True)
        shown = [*known, unknown] if unknown[1] else known
        return f"{self.__class__.__qualname__}({', '.join(f'{name}={value!r}' for name, value in shown)})"

    def __replace__(self: Any, **changes: Any) -> Any:  # noqa: N807
        return self.__class__(**{**dict(zip(names, values(self), strict=True)), **changes})

    return __eq__, __repr__, __replace__


class _Dataclass:
    """What ``dataclasses`` and ``pprint`` look for in a class; made when one is asked for, both take its place."""

    def __init__(self, attribute: str) -> None:
        self.attribute = attribute
        self.made: dict[type, Any] = {}

    def __get__(self, _: object, cls: Any) -> Any:
        if cls not in self.made:
            self.made[cls] = self._make(cls)
        return self.made[cls]

    def _make(self, cls: Any) -> Any:
        specs: list[Any] = [
            (name, object, dataclasses.field(default_factory=each.initial) if each.is_fresh else each.initial())
            for name, each in schema_of(cls).fields.items()
        ]
        specs.append(("unknown_tags", object, dataclasses.field(default=None, repr=False)))
        made: Any = dataclasses.make_dataclass(cls.__name__, specs, kw_only=True)
        for name, field in made.__dataclass_fields__.items():
            field.type = cls.__annotations__.get(name, object)
        cls.__dataclass_fields__ = made.__dataclass_fields__
        cls.__dataclass_params__ = made.__dataclass_params__
        return vars(cls)[self.attribute]


def _check(where: str, field: Field, annotation: object, versions: Versions | None, flexible: Versions | None) -> None:
    if versions is not None and field.versions not in (ALL_VERSIONS, NO_VERSIONS):
        inside = Versions(field.versions.first, versions.last if field.versions.last is None else field.versions.last)
        if not versions.covers(inside) or (inside.last is not None and inside.first > inside.last):
            raise SchemaError(f"{where}: versions {field.versions} are not among the message's {versions}")
    if field.null != NO_VERSIONS:
        if field.kind not in NULLABLE_KINDS:
            raise SchemaError(f"{where}: {field.kind} cannot be null")
        if not field.versions.covers(field.null):
            raise SchemaError(f"{where}: null in {field.null}, but present in {field.versions}")
    elif field.default is None:
        raise SchemaError(f"{where}: the default is null, but no version allows null")
    if field.tag is not None and flexible is not None and not flexible.covers(field.versions):
        raise SchemaError(f"{where}: tagged in {field.versions}, but flexible in {flexible}")
    expected = _python_type(field)
    if field.default is not UNSET and field.default is not None:
        _check_default(where, field)
    if isinstance(annotation, str):
        raise SchemaError(f"{where}: annotated with text; declarations cannot stand below `import annotations`")
    if annotation != expected:
        raise SchemaError(f"{where}: annotated {annotation}, but its kind needs {expected}")


_BITS = {"int8": 8, "int16": 16, "uint16": 16, "int32": 32, "uint32": 32, "int64": 64}


def _check_default(where: str, field: Field) -> None:
    if field.kind not in PRIMITIVES:
        raise SchemaError(f"{where}: the default of {field.kind} is null, or an empty one made anew")
    fits = type(field.default) is PRIMITIVES[field.kind][0]
    if fits and field.kind in _BITS:
        low = 0 if field.kind.startswith("u") else -(2 ** (_BITS[field.kind] - 1))
        fits = low <= field.default < low + 2 ** _BITS[field.kind]
    if not fits:
        raise SchemaError(f"{where}: {field.default!r} is no {field.kind}")


def _python_type(field: Field) -> Any:
    if field.kind == "array":
        assert field.of is not None
        base: Any = types.GenericAlias(list, (_python_type(field.of),))
    elif field.kind == "struct":
        base = field.struct
    else:
        base = PRIMITIVES[field.kind][0]
    return base | None if field.null != NO_VERSIONS else base
