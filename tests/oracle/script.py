"""The list of scripts of conversations. ``@script()`` adds a function, whose docstring describes the conversation."""

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
    """A script of a conversation.

    ``users``: if there are some, the broker has a SASL listener, which all connections use except those in
    ``plaintext``; ``brokers``: number of brokers, whose ids begin at 1; all connections are to broker 1; ``down``:
    brokers that are shut down before the conversation.
    """

    name: str
    doc: str
    play: Play
    config: Config
    releases: tuple[str, ...]
    users: Mapping[str, str]
    plaintext: tuple[str, ...]
    brokers: int = 1
    down: tuple[int, ...] = ()


SCRIPTS: list[Script] = []


def script(
    config: Config | None = None,
    releases: tuple[str, ...] = BOTH,
    users: Mapping[str, str] | None = None,
    plaintext: tuple[str, ...] = (),
    brokers: int = 1,
    down: tuple[int, ...] = (),
) -> Callable[[Play], Play]:
    def keep(play: Play) -> Play:
        doc = " ".join((play.__doc__ or "").split())
        given = (config or {}, releases, users or {}, plaintext, brokers, down)
        SCRIPTS.append(Script(play.__name__, doc, play, *given))
        return play

    return keep
