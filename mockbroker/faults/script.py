"""Scripts: the timed cluster changes of a preset, such as a rolling restart. All times are on the broker's clock."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from heapq import heapify, heappop, heappush

from kwire.lazy_dataclass import dataclass
from mockbroker.base.deadlines import Deadlines
from mockbroker.base.timers import Due, ScriptDue
from mockbroker.faults.globs import compile_glob
from mockbroker.faults.rules import RuleExists


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a script: a change of the cluster that may be undone later, such as the stop of a broker.

    Attributes:
        begins: Time at which the change is made, in seconds after the start of the script.
        ends: Time at which the change is undone, in seconds after the start; None if it lasts until the script is
            removed.
        begin: Function that makes the change. If it raises an exception, ``end`` is not called.
        end: Function that undoes the change; None if the change cannot be undone.
        what: Two descriptions for the journal: of the change, and of its undoing; "" to add no journal event.
    """

    begins: float
    ends: float | None
    begin: Callable[[], None]
    end: Callable[[], None] | None
    what: tuple[str, str] = ("", "")


class Script:
    """A running script: the timed cluster changes of an active preset.

    Args:
        steps: The cluster changes, with times relative to ``now``.
        now: The broker's time in seconds.

    Attributes:
        name: Name of the script.
        rules: Names of the fault rules of the same preset.
    """

    def __init__(self, name: str, rules: Sequence[str], steps: Sequence[Step], now: float) -> None:
        self.name = name
        self.rules = tuple(rules)
        self._waiting = [(now + step.begins, order, step) for order, step in enumerate(steps)]
        heapify(self._waiting)
        self._lasting: list[tuple[float, int, Step]] = []  # steps that have begun and have an end
        self._forever: list[Step] = []  # steps that have begun and end when the script is removed

    @property
    def next(self) -> float | None:
        """The broker time in seconds at which the next change is made or undone; None if no change remains."""
        return min((queue[0][0] for queue in (self._lasting, self._waiting) if queue), default=None)

    def run(self, now: float) -> Iterator[str]:
        """Make the changes and undo the changes whose time has come, in the order of their times; yield a description
        of each.

        Of changes with the same time, those to undo come first.

        ``now``: the broker's time in seconds.
        """
        while (at := self.next) is not None and at <= now:
            if self._lasting and self._lasting[0][0] == at:
                yield from _end(heappop(self._lasting)[2])
                continue
            begun, order, step = heappop(self._waiting)
            step.begin()
            if step.ends is not None:
                heappush(self._lasting, (begun - step.begins + step.ends, order, step))
            elif step.end is not None:
                self._forever.append(step)
            if step.what[0]:
                yield step.what[0]

    def stop(self) -> Iterator[str]:
        """Discard the steps that have not begun, and undo the changes that were made and not yet undone.

        Yield a description of each undone change.
        """
        self._waiting.clear()
        while self._lasting:
            yield from _end(heappop(self._lasting)[2])
        while self._forever:
            yield from _end(self._forever.pop())


def _end(step: Step) -> Iterator[str]:
    if step.end is not None:
        step.end()
        if step.what[1]:
            yield step.what[1]


class Scripts:
    """The running scripts (timed cluster changes of presets) of a cluster, by name.

    Args:
        deadlines: Function that returns the deadlines of the broker.
        report: Function that is called after each change with the name of the script, a description of the change, and
            the broker's time in seconds.
        failures: Types of exceptions that a change may raise. Such an exception is reported, and the script continues
            with its next change.
    """

    def __init__(
        self,
        deadlines: Callable[[], Deadlines[Due]],
        report: Callable[[str, str, float], None],
        failures: tuple[type[Exception], ...],
    ) -> None:
        self._deadlines = deadlines
        self._report = report
        self._failures = failures
        self._scripts: dict[str, Script] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._scripts

    def names(self) -> list[str]:
        """Return the names of the scripts."""
        return list(self._scripts)

    def check(self, name: str) -> None:
        """Check that no script has the name ``name``. Raises: RuleExists if a script has this name."""
        if name in self._scripts:
            raise RuleExists(f"the preset {name} is already active: remove the preset, or use another name")

    def start(self, name: str, rules: Sequence[str], steps: Sequence[Step], now: float) -> None:
        """Start a script, and make the changes that are due now.

        Args:
            name: Name of the script, which no running script has.
            rules: Names of the fault rules of the same preset.
            steps: The timed changes.
            now: The broker's time in seconds.

        Raises: the exception of a change that fails now. The changes made so far are then undone, and the script is not
        started.
        """
        script = Script(name, rules, steps, now)
        try:
            for what in script.run(now):
                self._report(name, what, now)
        except self._failures:
            self._stop(script, now)
            raise
        self._scripts[name] = script
        self._schedule(script)

    def remove(self, name: str, now: float) -> list[Script]:
        """Remove the scripts whose name matches a glob, and undo their changes; return the scripts.

        Args:
            name: The glob.
            now: The broker's time in seconds.

        Raises: ValueError if the glob is not valid.
        """
        matches = compile_glob(name)
        removed = [script for key, script in self._scripts.items() if matches(key)]
        for script in removed:
            del self._scripts[script.name]
            self._deadlines().forget(ScriptDue(script.name))
            self._stop(script, now)
        return removed

    def forget_rules(self, existing: Container[str]) -> None:
        """Remove each script whose fault rules have all been removed, without undoing its changes.

        A script without fault rules remains. ``existing``: names of the rules that exist.
        """
        for script in list(self._scripts.values()):
            if script.rules and not any(rule in existing for rule in script.rules):
                del self._scripts[script.name]
                self._deadlines().forget(ScriptDue(script.name))

    def clear(self) -> None:
        """Remove all scripts without undoing their changes, because the broker was replaced."""
        self._scripts.clear()

    def _run(self, name: str, now: float) -> None:
        script = self._scripts.get(name)
        if script is None:
            return
        try:
            for what in script.run(now):
                self._report(name, what, now)
        except self._failures as error:
            self._report(name, str(error), now)
        self._schedule(script)

    def _stop(self, script: Script, now: float) -> None:
        while True:
            try:
                for what in script.stop():
                    self._report(script.name, what, now)
            except self._failures as error:
                self._report(script.name, str(error), now)
            else:
                return

    def _schedule(self, script: Script) -> None:
        if script.next is not None:
            due = ScriptDue(script.name, lambda now: self._run(script.name, now))
            self._deadlines().set(due, script.next)
