"""The choice of the default engine, DEFAULT, which is used if the caller names no engine.

The default is the native engine if the package kwire-native is installed, else the compiled engine. The environment
variable KWIRE_ENGINE selects another engine. The modules of the compiled and the native engine have the same interface:
the functions ``decode``, ``encode`` and ``rough_error``, and the caches ``readers`` and ``writers`` of the functions
for each message version.
"""

from __future__ import annotations

import os
import warnings
from typing import Any, Literal, get_args

from kwire.engines import compiled, native
from kwire.engines.compiled import Reader, Writer
from kwire.errors import EngineError

Engine = Literal["native", "compiled", "reference"]
KNOWN: tuple[Engine, ...] = get_args(Engine)


def available() -> tuple[Engine, ...]:
    """Return the engines that are installed."""
    return KNOWN if native.package() else KNOWN[1:]


def choose(wanted: str | None) -> Engine:
    """Return the default engine. Raises: EngineError if the engine is unknown or not installed.

    Args:
        wanted: value of KWIRE_ENGINE; None or an empty text for the fastest installed engine.
    """
    if not wanted:
        if reason := native.mismatch():
            warnings.warn(f"the native engine is not used: {reason}", stacklevel=2)
        return available()[0]
    for engine in KNOWN:
        if engine == wanted:
            check_installed(engine)
            return engine
    raise EngineError(f"KWIRE_ENGINE is {wanted!r}, which is not an engine: use native, compiled or reference")


def check_installed(engine: Engine) -> None:
    """Raise EngineError if an engine is not installed, or cannot be used."""
    if engine == "native" and (reason := native.mismatch()):
        raise EngineError(f"the native engine cannot be used: {reason}")
    if engine not in available():
        raise EngineError(f"the {engine} engine is not installed: install kwire-native, or use compiled or reference")


def implementation(engine: Engine) -> Any:
    """Return the module of an engine. Raises: EngineError if the engine is unknown or not installed."""
    if engine == "compiled":
        return compiled
    if engine == "native":
        check_installed(engine)
        return native
    if engine != "reference":
        raise EngineError(f"unknown engine {engine!r}: use native, compiled or reference")
    from kwire.engines import reference  # on first use, because it imports construct

    return reference


DEFAULT = choose(os.environ.get("KWIRE_ENGINE"))


def native_package() -> Any:
    """Return the module ``kwire_native``; None if the native engine is not the default engine."""
    return native.package() if DEFAULT == "native" else None


# Functions in use of the default engine, by message and version; empty for the reference engine.
readers: dict[type, dict[int, Reader]] = {}
writers: dict[type, dict[int, Writer]] = {}
if DEFAULT != "reference":
    readers, writers = implementation(DEFAULT).readers, implementation(DEFAULT).writers
