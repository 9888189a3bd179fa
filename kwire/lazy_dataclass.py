"""Dataclasses whose methods are generated on first use.

``dataclasses.dataclass`` compiles up to eight methods for each class, which takes most of the time of an import. A
process uses less than half of the classes that it imports. The decorator of this module therefore compiles nothing. The
first call of the constructor compiles ``__init__``. The first use of any other method or attribute generates all of
them with ``dataclasses.dataclass``.
"""

from __future__ import annotations

import dataclasses
from _thread import RLock  # threading takes longer to import
from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field
from typing import TYPE_CHECKING, Any

ATTRIBUTES = ("__dataclass_fields__", "__dataclass_params__", "__match_args__", "__signature__")
_generating = RLock()  # generating the methods of a class may do so for its base classes


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls: type | None = None, /, *, slots: bool = False, **options: bool) -> Any:
        """Return a dataclass, as ``dataclasses.dataclass`` does, but generate its methods on first use.

        Without ``slots``, or with the option ``order``, the methods are generated immediately.

        Args:
            cls: the class that declares the fields; None if the decorator has arguments.
            slots: whether to define ``__slots__``.
            options: further parameters of ``dataclasses.dataclass``.
        """
        if cls is None:
            return lambda declared: dataclass(declared, slots=slots, **options)
        if not slots or options.get("order"):
            return dataclasses.dataclass(cls, slots=slots, **options)
        return _LazyClass(cls, options).result


class _LazyClass:
    """The state of a dataclass until all of its methods are generated.

    Args:
        declared: the class that declares the fields.
        options: parameters of ``dataclasses.dataclass``, without ``slots``.

    Attributes:
        result: the class with slots. Its methods are placeholders until they are generated.
    """

    def __init__(self, declared: Any, options: dict[str, bool]) -> None:
        self._declared = declared
        self._options = options
        self._is_complete = False
        self._body = body = dict(vars(declared))
        fields = _own_fields(declared)
        inherited = {name for base in declared.__mro__[1:] for name in vars(base).get("__slots__", ())}
        dropped = {*fields, "__dict__", "__weakref__"}
        if "__eq__" in body and body.get("__hash__") is None:
            dropped.add("__hash__")  # Python sets it to None because there is an __eq__
        kept = {name: value for name, value in body.items() if name not in dropped}
        self._placeholders = {name: self._placeholder(name) for name in self._methods() if name not in kept}
        self._placeholders |= {name: _Attribute(self, name) for name in ATTRIBUTES}
        space = self._placeholders | kept
        space["__slots__"] = tuple(name for name in fields if name not in inherited)
        self.result: Any = type(declared)(declared.__name__, declared.__bases__, space)
        self.result.__qualname__ = declared.__qualname__

    def _methods(self) -> Iterator[str]:
        """Yield the names of the methods that ``dataclasses.dataclass`` would generate with these options."""
        frozen, eq = self._options.get("frozen"), self._options.get("eq", True)
        yield from (f"__{name}__" for name in ("init", "repr", "eq") if self._options.get(name, True))
        if frozen:
            yield from ("__delattr__", "__getstate__", "__setattr__", "__setstate__")
        if (frozen and eq) or self._options.get("unsafe_hash"):
            yield "__hash__"

    def _placeholder(self, name: str) -> Any:
        """Return a method that, when it is called, generates the real method named ``name`` and calls it."""
        generate = self._generate_init if name == "__init__" else self.complete

        def method(instance: Any, /, *args: Any, **values: Any) -> Any:
            generate()
            return getattr(self.result, name)(instance, *args, **values)

        return method

    def _generate_init(self) -> None:
        """Replace the placeholder of ``__init__``."""
        with _generating:
            if self.result.__init__ is self._placeholders["__init__"]:
                fields = _fields(self._declared, self._options.get("kw_only", False))
                self.result.__init__ = _init(self.result, fields, self._options.get("frozen", False))

    def complete(self) -> None:
        """Replace all placeholders by the methods and attributes that ``dataclasses.dataclass`` generates."""
        with _generating:
            if self._is_complete:
                return
            self._is_complete = True
            declared, result = self._declared, self.result
            if declared.__doc__ is None:
                declared.__doc__ = declared.__name__  # else dataclasses computes a signature, which is slow
            generated = vars(dataclasses.dataclass(slots=True, **self._options)(declared))
            for name in generated.keys() - {*result.__slots__, "__slots__", "__doc__"}:
                if generated[name] is not self._body.get(name):
                    setattr(result, name, generated[name])
            for name in self._placeholders.keys() - generated.keys():
                delattr(result, name)


class _Attribute:
    """The placeholder of a class attribute, as a descriptor. The first access generates all methods of the class.

    Args:
        lazy_class: state of the dataclass.
        name: name of the attribute.
    """

    def __init__(self, lazy_class: _LazyClass, name: str) -> None:
        self._lazy_class = lazy_class
        self._name = name

    def __get__(self, _: object, cls: type) -> Any:
        self._lazy_class.complete()
        return getattr(cls, self._name)


class _Factory:
    """The marker that a constructor has as the default of a parameter whose field has a ``default_factory``."""

    def __repr__(self) -> str:
        return "<factory>"


FACTORY = _Factory()


def _own_fields(declared: type) -> dict[str, Any]:
    """Return the fields that a class itself declares: for each name its default as written, a value or a Field."""
    body = vars(declared)
    return {
        name: body.get(name, MISSING)
        for name, kind in declared.__annotations__.items()
        if not str(kind).removeprefix("typing.").startswith("ClassVar")
    }


def _fields(declared: Any, kw_only: bool) -> dict[str, tuple[Field[Any], bool]]:
    """Return the fields of a class by name, and for each field whether it is keyword-only. Inherited fields come first.

    ``kw_only``: whether the fields that the class itself declares are keyword-only.
    """
    fields: dict[str, tuple[Field[Any], bool]] = {}
    for base in reversed(declared.__mro__[1:]):
        if dataclasses.is_dataclass(base):
            fields |= {each.name: (each, bool(each.kw_only)) for each in dataclasses.fields(base)}
    for name, value in _own_fields(declared).items():
        field: Field[Any] = value if isinstance(value, Field) else dataclasses.field(default=value)
        fields[name] = field, kw_only if field.kw_only is MISSING else field.kw_only
    return fields


def _init(cls: type, fields: dict[str, tuple[Field[Any], bool]], frozen: bool) -> Callable[..., None]:
    """Compile the constructor of a class from its fields."""
    space: dict[str, Any] = {"_assign": object.__setattr__, "_FACTORY": FACTORY}
    parameters: dict[bool, list[str]] = {False: [], True: []}  # by whether they are keyword-only
    lines = []
    for name, (field, kw_only) in fields.items():
        value = parameter = name
        if field.default_factory is not MISSING:
            space[f"_new_{name}"] = field.default_factory
            value = f"_new_{name}() if {name} is _FACTORY else {name}" if field.init else f"_new_{name}()"
            parameter = f"{name}=_FACTORY"
        elif field.default is not MISSING:
            space[f"_default_{name}"] = field.default
            value = name if field.init else f"_default_{name}"
            parameter = f"{name}=_default_{name}"
        elif not field.init:
            continue
        if field.init:
            parameters[kw_only].append(parameter)
        lines.append(f"_assign(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    words = ["self", *parameters[False], *(["*", *parameters[True]] if parameters[True] else [])]
    exec(f"def __init__({', '.join(words)}):\n " + "\n ".join(lines or ["pass"]), space)  # noqa: S102 - field names
    init: Callable[..., None] = space["__init__"]
    init.__qualname__, init.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    return init
