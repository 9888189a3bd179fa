"""Fuzzing: random values of every message, mutated frames, and a fuzzer that sends mutated frames to a broker.

``strategies`` has Hypothesis strategies. It is the only module here that needs Hypothesis (extra ``kwire[fuzz]``).
``values`` and ``mutate`` create values and frames with a ``random.Random``. docs/fuzzing.md shows how to use all of
them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = ["any_message", "frames", "messages"]

if TYPE_CHECKING:
    from kwire.fuzz.strategies import any_message, frames, messages
else:  # loaded on first access: mutators must work without Hypothesis

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.strategies"), name)
