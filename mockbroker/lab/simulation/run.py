"""Functions that run a script in the simulation and return its outcome."""

from __future__ import annotations

from dataclasses import replace

from kwire.lazy_dataclass import dataclass
from mockbroker.lab.simulation.coverage import Coverage
from mockbroker.lab.simulation.script import Script
from mockbroker.lab.simulation.watching import Broken
from mockbroker.lab.simulation.world import World

RAISED = "raised"  # in place of the name of an invariant: the run ended with an exception


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a run of the simulation.

    Attributes:
        script: script of the run.
        hash: hash of the trace, in hex.
        events: number of lines of the trace.
        calls: number of calls of the event queue.
        seconds: duration in virtual time, seconds.
        broken: name of the violated invariant; RAISED if the run ended with an exception; "" without a failure.
        text: description of the failure; "" without a failure.
        last: last lines of the trace.
    """

    script: Script
    hash: str
    events: int
    calls: int
    seconds: float
    broken: str = ""
    text: str = ""
    last: tuple[str, ...] = ()

    @property
    def failure(self) -> str:
        """The name of the violated invariant, or "raised" with the class of the exception; "" without a failure."""
        return f"{RAISED} {self.text.partition(':')[0]}" if self.broken == RAISED else self.broken


def run(script: Script, coverage: Coverage | None = None) -> Outcome:
    """Run a script once, and return the outcome.

    A violated invariant or an exception is reported in the outcome, not raised.

    ``coverage``: coverage that the run adds to; None to measure no coverage.
    """
    world = World(script, coverage)
    broken, text = "", ""
    try:
        world.run()
    except Broken as error:
        broken, text = error.name, error.text
    except Exception as error:  # an exception in the broker is a failure, too
        broken, text = RAISED, f"{type(error).__name__}: {error}"
    if coverage is not None:
        coverage.end_run()
    trace, queue = world.trace, world.queue
    return Outcome(script, trace.hash, trace.events, queue.calls, queue.now, broken, text, tuple(trace.last))


def repeated(script: Script, coverage: Coverage | None = None) -> Outcome:
    """Run a script twice, to check that both runs are identical (I16).

    Args:
        script: the script.
        coverage: coverage that the first run adds to; None to measure no coverage.

    Returns: the outcome of the first run. If the traces of both runs differ, an outcome with a violation of I16.
    """
    first, second = run(script, coverage), run(script)
    if first.hash == second.hash or first.broken:
        return first
    text = f"two runs of the same script differ: hashes {first.hash} and {second.hash}"
    return replace(first, broken="I16", text=text)
