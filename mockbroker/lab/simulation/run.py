"""Run a script and tell how it came out."""

from __future__ import annotations

from dataclasses import dataclass

from mockbroker.lab.simulation.script import Script
from mockbroker.lab.simulation.watching import Broken
from mockbroker.lab.simulation.world import World


@dataclass(frozen=True, slots=True)
class Outcome:
    """``broken``: the invariant that does not hold, "" if all do; ``text``: how; ``last``: the last events."""

    script: Script
    hash: str
    events: int
    seconds: float
    broken: str = ""
    text: str = ""
    last: tuple[str, ...] = ()


def run(script: Script) -> Outcome:
    """Once, from the beginning."""
    world = World(script)
    broken, text = "", ""
    try:
        world.run()
    except Broken as error:
        broken, text = error.name, error.text
    except Exception as error:  # whatever the broker raises is a failure of its own
        broken, text = "raised", f"{type(error).__name__}: {error}"
    trace = world.trace
    return Outcome(script, trace.hash, trace.events, world.queue.now, broken, text, tuple(trace.last))


def repeated(script: Script) -> Outcome:
    """Twice; I16 is broken if the two runs differ."""
    first, second = run(script), run(script)
    if first.hash == second.hash or first.broken:
        return first
    text = f"the same script ran in two ways: {first.hash} and {second.hash}"
    return Outcome(script, first.hash, first.events, first.seconds, "I16", text, first.last)
