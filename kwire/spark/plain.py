"""Encoding of values as bytes whose decoding cannot run code from the bytes.

The streaming job encodes the state of connections this way, because other users may be able to write to the work folder
of the job. The bytes are a pickle in which ``MADE`` is the only allowed name of a function or class. ``MADE`` is called
with the name of a class and the values of the fields, and creates the object without running code of the class. The
known classes are those of ``STANDARD``, of the modules in ``MODULES``, and of the modules with messages. A value of an
unknown class is not encoded.
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
MODULES = frozenset(  # modules whose classes may be encoded, besides message classes
    {
        "kwire.analysis.clusters",
        "kwire.analysis.events",
        "kwire.analysis.findings.evidence",
        "kwire.analysis.findings.observations",
        "kwire.analysis.findings.summaries",
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
        "kwire.capture.tls.hellos",
        "kwire.capture.tls.session",
        "kwire.errorcodes",
        "kwire.spark.folding",
        "kwire.spark.following",
        "kwire.spark.increments",
        "kwire.spark.capture_summary",
        "kwire.spark.subjects",
    }
)
DAMAGE = (pickle.UnpicklingError, EOFError, ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError)
STANDARD: dict[type, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {  # conversion to builtin values, and back
    UUID: (lambda value: value.bytes, lambda state: UUID(bytes=state)),
    deque: (list, deque),
    Counter: (dict, Counter),
    OrderedDict: (dict, OrderedDict),
}
DEFAULTS = "defaultdict "  # prefix of a factory: a class of MODULES, or one of these
FACTORIES: dict[str, type] = {kind.__name__: kind for kind in (list, set, dict, int)}
BY_NAME = {kind.__name__: kind for kind in STANDARD}


class PlainError(ValueError):
    """The error for a value whose type cannot be encoded, and for bytes that this release of kwire cannot decode."""


def dumps(value: object) -> bytes:
    """Encode a value as bytes.

    Raises: PlainError if the value contains an object of an unknown class, see the module.
    """
    into = io.BytesIO()
    _Writer(into, PROTOCOL).dump(value)
    return into.getvalue()


def loads(data: bytes) -> Any:
    """Decode bytes that ``dumps`` returned.

    Raises: PlainError for bytes that are not a result of ``dumps``, or that contain a class which this release lacks.
    """
    try:
        return _Reader(io.BytesIO(data)).load()
    except PlainError:
        raise
    except DAMAGE as error:
        raise PlainError(
            f"the stored state cannot be decoded by this release of kwire ({error}): to restart a stream from scratch, "
            "delete its folder _stream/capture_id=..."
        ) from error


class _Made:
    """The type of ``MADE``, the only callable that the encoded bytes may refer to.

    It has no attributes that the bytes could set.
    """

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
        instance: Any = object.__new__(kind)
        fields = _fields(kind)
        for field, value in state.items():
            if fields is not None and field not in fields:
                raise PlainError(
                    f"the stored state contains field {field} of class {name}, which this release of kwire does not "
                    "have: use the release that wrote the state"
                )
            object.__setattr__(instance, field, value)
        if fields is not None and (missing := fields - state.keys()):
            raise PlainError(
                f"the stored state lacks field {min(missing)} of class {name}: it is from an earlier release of kwire. "
                "To restart a stream from scratch, delete its folder _stream/capture_id=..."
            )
        return instance


MADE = _Made()


class _Writer(pickle.Pickler):
    """The pickler that encodes known classes as calls of ``MADE``."""

    def reducer_override(self, value: Any) -> Any:
        """Return how pickle encodes an instance of a known class: as ``MADE`` and the arguments of the call.

        The arguments are the class name and the values of the fields. For ``MADE``, return the name ``"MADE"``.

        Raises: PlainError for an instance of an unknown class.
        """
        kind: Any = type(value)
        if kind is _Made:
            return "MADE"
        if kind in STANDARD:
            return MADE, (kind.__name__, STANDARD[kind][0](value))
        if kind is defaultdict:
            factory = value.default_factory
            name = factory.__name__ if factory in FACTORIES.values() else _name(factory)
            return MADE, (DEFAULTS + name, dict(value))
        name = _name(kind)
        if issubclass(kind, Enum):
            return MADE, (name, value.value)
        if issubclass(kind, tuple):
            return MADE, (name, tuple(value))
        fields = _fields(kind)
        if fields is None:
            return MADE, (name, dict(vars(value)))
        return MADE, (name, {field: getattr(value, field) for field in fields})


class _Reader(pickle.Unpickler):
    """The unpickler that accepts no name of a class or function except ``MADE``."""

    def find_class(self, module: str, name: str) -> Any:
        """Return ``MADE``. Raises: pickle.UnpicklingError for every other name."""
        if (module, name) != (__name__, "MADE"):
            raise pickle.UnpicklingError(f"{module}.{name} is not allowed")
        return MADE


def _name(kind: Any) -> str:
    """Return the name ``module:name`` that the encoded bytes contain for a class.

    Raises: PlainError for an unknown class.
    """
    name = f"{kind.__module__}:{kind.__qualname__}"
    if _found(name) is not kind:
        raise PlainError(f"class {name} is not allowed in the stored state")
    return name


def _class(name: str) -> type:
    """Return the class with the name ``module:name``. Raises: PlainError if it does not exist or is not allowed."""
    found = _found(name)
    if found is None:
        raise PlainError(
            f"class {name} is not allowed in the stored state, which is damaged or from another release of kwire: to "
            "restart a stream from scratch, delete its folder _stream/capture_id=..."
        )
    return found


@cache
def _found(name: str) -> type | None:
    """Return the class with the name ``module:name``.

    The result is None for an exception, and for a class whose module is neither in ``MODULES`` nor a module with
    messages. Raises: PlainError if the class does not exist.
    """
    module, _, path = name.partition(":")
    if module not in MODULES and not module.startswith(MESSAGES):
        return None
    try:
        member: Any = import_module(module)
        for part in path.split("."):
            member = vars(member)[part]
    except (ImportError, KeyError, TypeError) as error:
        raise PlainError(
            f"the stored state contains class {name}, which this release of kwire does not have: use the release that "
            "wrote the state"
        ) from error
    if not isinstance(member, type) or member.__module__ != module or issubclass(member, BaseException):
        return None
    return member


@cache
def _fields(kind: type) -> frozenset[str] | None:
    """Return the names of the slots of a class; None for a class without slots."""
    if any("__dict__" in vars(each) for each in kind.__mro__):
        return None
    return frozenset(_slots(kind))


def _slots(kind: type) -> Iterator[str]:
    for each in kind.__mro__:
        slots = vars(each).get("__slots__", ())
        yield from (slots,) if isinstance(slots, str) else slots
