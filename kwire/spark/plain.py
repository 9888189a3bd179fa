"""Values as bytes that nothing can be run from: what a stream keeps in its work folder, which others may write to.

The bytes are a pickle in which no function and no class is named but one of ours, ``MADE``; the reader refuses every
other name. It takes the name of a class of ``MODULES`` and what its fields hold, and sets just those, without any call
of the class's own code. A type that is not known here is an error when it is written.
"""

from __future__ import annotations

import io
import pickle
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from enum import Enum
from functools import cache
from importlib import import_module
from typing import Any
from uuid import UUID

PROTOCOL = 5
MESSAGES = "kwire.messages."
MODULES = frozenset(  # whose classes may be kept, besides the messages
    {
        "kwire.analysis.clusters",
        "kwire.analysis.events",
        "kwire.analysis.topics",
        "kwire.analysis.transactions",
        "kwire.analysis.unread",
        "kwire.analysis.usage",
        "kwire.analysis.what_if.evidence",
        "kwire.assignors.client",
        "kwire.capture.calls.bodies",
        "kwire.capture.calls.conversation",
        "kwire.capture.calls.exchange",
        "kwire.capture.calls.frame_checks",
        "kwire.capture.calls.framing",
        "kwire.capture.calls.lost",
        "kwire.capture.calls.model",
        "kwire.capture.calls.pending",
        "kwire.capture.calls.sasl_tokens",
        "kwire.capture.files.blocks",
        "kwire.capture.tcp.stream",
        "kwire.errorcodes",
        "kwire.spark.following",
        "kwire.spark.stages",
    }
)
DAMAGE = (pickle.UnpicklingError, EOFError, ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError)
STANDARD: dict[type, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {  # to builtin values, and back
    UUID: (lambda value: value.bytes, lambda state: UUID(bytes=state)),
    deque: (list, deque),
    Counter: (dict, Counter),
    OrderedDict: (dict, OrderedDict),
}
DEFAULTS = "defaultdict "  # of a factory: a class of MODULES, or one of these
FACTORIES: dict[str, type] = {kind.__name__: kind for kind in (list, set, dict, int)}
BY_NAME = {kind.__name__: kind for kind in STANDARD}


class PlainError(ValueError):
    """A type that cannot be kept, or bytes that are not a value kept here."""


def dumps(value: object) -> bytes:
    """Builtin values, and objects of the known classes, as bytes. Raises: PlainError."""
    into = io.BytesIO()
    _Writer(into, PROTOCOL).dump(value)
    return into.getvalue()


def loads(data: bytes) -> Any:
    """The value out of its bytes. Raises: PlainError."""
    try:
        return _Reader(io.BytesIO(data)).load()
    except DAMAGE as error:
        raise PlainError(f"not a value that this release of kwire keeps: {error}") from error


class _Made:
    """What the bytes may call. It has no attributes, so none can be set."""

    __slots__ = ()

    def __call__(self, name: str, state: Any) -> object:
        if name.startswith(DEFAULTS):
            factory = name.removeprefix(DEFAULTS)
            return defaultdict(FACTORIES.get(factory) or _class(factory), state)
        if name in BY_NAME:
            return STANDARD[BY_NAME[name]][1](state)
        kind: Any = _class(name)
        if issubclass(kind, Enum):
            return kind(state)
        if issubclass(kind, tuple):
            return tuple.__new__(kind, state)
        made: Any = object.__new__(kind)
        fields = _fields(kind)
        for field, value in state.items():
            if fields is not None and field not in fields:
                raise PlainError(f"{name} has no field {field}")
            object.__setattr__(made, field, value)
        return made


MADE = _Made()


class _Writer(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        """What is written of all that is not a builtin value."""
        kind: Any = type(value)
        if kind is _Made:
            return "MADE"
        if kind in STANDARD:
            return MADE, (kind.__name__, STANDARD[kind][0](value))
        if kind is defaultdict:
            factory = value.default_factory
            known = factory.__name__ if factory in FACTORIES.values() else _name(factory)
            return MADE, (DEFAULTS + known, dict(value))
        name = _name(kind)
        if issubclass(kind, Enum):
            return MADE, (name, value.value)
        if issubclass(kind, tuple):
            return MADE, (name, tuple(value))
        fields = _fields(kind)
        if fields is None:
            return MADE, (name, dict(vars(value)))
        return MADE, (name, {field: getattr(value, field) for field in fields if hasattr(value, field)})


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """The one thing that may be named."""
        if (module, name) != (__name__, "MADE"):
            raise pickle.UnpicklingError(f"{module}.{name} is named in it")
        return MADE


def _name(kind: Any) -> str:
    """How a class is called in the bytes. Raises: PlainError."""
    name = f"{kind.__module__}:{kind.__qualname__}"
    if _class(name) is not kind:
        raise PlainError(f"{name} cannot be kept")
    return name


@cache
def _class(name: str) -> type:
    """A class of ours by its name. Raises: PlainError."""
    module, _, path = name.partition(":")
    if module not in MODULES and not module.startswith(MESSAGES):
        raise PlainError(f"{name} cannot be kept")
    try:
        found: Any = import_module(module)
        for part in path.split("."):
            found = vars(found)[part]
    except (ImportError, KeyError, TypeError) as error:
        raise PlainError(f"there is no {name}") from error
    if not isinstance(found, type) or found.__module__ != module or issubclass(found, BaseException):
        raise PlainError(f"{name} cannot be kept")
    return found


@cache
def _fields(kind: type) -> frozenset[str] | None:
    """The slots of a class; None if its objects have a dictionary."""
    if any("__dict__" in vars(each) for each in kind.__mro__):
        return None
    return frozenset(_slots(kind))


def _slots(kind: type) -> Iterator[str]:
    for each in kind.__mro__:
        slots = vars(each).get("__slots__", ())
        yield from (slots,) if isinstance(slots, str) else slots
