"""What a script is, and the list of all: ``@script()`` puts a function on it, its docstring says what it shows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from prober import Prober

NEW, OLD = "4.2.0", "3.9.1"
BOTH = (NEW, OLD)
Config = Mapping[str, int | str]
Play = Callable[[Prober], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Script:
    """``users``: with these there is a SASL listener, and connections are to it, but for those in ``plaintext``."""

    name: str
    doc: str
    play: Play
    config: Config
    releases: tuple[str, ...]
    users: Mapping[str, str]
    plaintext: tuple[str, ...]


SCRIPTS: list[Script] = []


def script(
    config: Config | None = None,
    releases: tuple[str, ...] = BOTH,
    users: Mapping[str, str] | None = None,
    plaintext: tuple[str, ...] = (),
) -> Callable[[Play], Play]:
    def keep(play: Play) -> Play:
        doc = " ".join((play.__doc__ or "").split())
        SCRIPTS.append(Script(play.__name__, doc, play, config or {}, releases, users or {}, plaintext))
        return play

    return keep
