"""Scripts: steps begin and end at their times, and the removal of a script ends the steps that have begun."""

from __future__ import annotations

import pytest

from mockbroker.base.deadlines import Deadlines
from mockbroker.base.timers import Due, ScriptDue
from mockbroker.faults.rules import RuleExists
from mockbroker.faults.script import Scripts, Step


class Stage:
    """Scripts with a clock.

    Attributes:
        done: the effects of the steps, with their times.
        reported: the reports, with their times.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.done: list[tuple[float, str]] = []
        self.reported: list[tuple[float, str]] = []
        self.deadlines: Deadlines[Due] = Deadlines()
        self.scripts = Scripts(lambda: self.deadlines, self._report, (LookupError,))

    def _report(self, name: str, what: str, now: float) -> None:
        self.reported.append((now, f"{name}: {what}"))

    def step(self, name: str, begins: float, ends: float | None = None, *, error: bool = False) -> Step:
        def begin() -> None:
            if error:
                raise LookupError(f"{name} failed")
            self.done.append((self.now, name))

        return Step(
            begins, ends, begin, lambda: self.done.append((self.now, f"-{name}")), (f"{name} on", f"{name} off")
        )

    def wait(self, until: float) -> None:
        while (due := self.deadlines.earliest) <= until:
            self.now = due
            result = self.deadlines.pop_due(due)
            if isinstance(result, ScriptDue):
                assert result.run is not None
                result.run(self.now)
        self.now = until


def test_steps_begin_and_end_at_their_times() -> None:
    stage = Stage()
    stage.now = 100.0
    stage.scripts.start("s", [], [stage.step("a", 0, 2), stage.step("b", 3, 5)], 100.0)
    stage.wait(110.0)
    assert stage.done == [(100.0, "a"), (102.0, "-a"), (103.0, "b"), (105.0, "-b")]
    assert [what for _, what in stage.reported] == ["s: a on", "s: a off", "s: b on", "s: b off"]


def test_end_comes_before_a_beginning_at_the_same_time() -> None:
    stage = Stage()
    stage.scripts.start("s", [], [stage.step("a", 0, 2), stage.step("b", 2, 4)], 0.0)
    stage.wait(2.0)
    assert stage.done == [(0.0, "a"), (2.0, "-a"), (2.0, "b")]


def test_removed_script_ends_what_has_begun() -> None:
    stage = Stage()
    steps = [stage.step("a", 0, 2), stage.step("forever", 0), stage.step("b", 3, 5), stage.step("c", 6, 7)]
    stage.scripts.start("s", [], steps, 0.0)
    stage.wait(4.0)
    (removed,) = stage.scripts.remove("s*", 4.0)
    assert removed.name == "s"
    assert "s" not in stage.scripts
    stage.wait(20.0)
    assert stage.done[-2:] == [(4.0, "-b"), (4.0, "-forever")]
    assert [what for _, what in stage.done].count("c") == 0


def test_step_that_fails_is_reported_and_has_no_end() -> None:
    stage = Stage()
    stage.scripts.start("s", [], [stage.step("a", 1, 2, error=True), stage.step("b", 1, 3)], 0.0)
    stage.wait(5.0)
    assert stage.done == [(1.0, "b"), (3.0, "-b")]
    assert stage.reported[0] == (1.0, "s: a failed")


def test_script_whose_first_step_fails_does_not_exist() -> None:
    stage = Stage()
    steps = [stage.step("a", 0, 2), stage.step("b", 0, 2, error=True), stage.step("c", 1)]
    with pytest.raises(LookupError, match="b failed"):
        stage.scripts.start("s", [], steps, 0.0)
    stage.wait(5.0)
    assert stage.done == [(0.0, "a"), (0.0, "-a")]
    assert "s" not in stage.scripts


def test_name_that_exists_is_refused() -> None:
    stage = Stage()
    stage.scripts.start("s", [], [], 0.0)
    stage.scripts.check("other")
    with pytest.raises(RuleExists, match="the preset s is already active"):
        stage.scripts.check("s")


def test_script_without_its_rules_is_forgotten() -> None:
    stage = Stage()
    stage.scripts.start("s", ["r1", "r2"], [stage.step("a", 1, 2)], 0.0)
    stage.scripts.start("without-rules", [], [], 0.0)
    stage.scripts.forget_rules({"r2"})
    assert "s" in stage.scripts
    stage.scripts.forget_rules(set())
    assert "s" not in stage.scripts
    assert "without-rules" in stage.scripts
    stage.wait(5.0)
    assert stage.done == []


def test_scripts_of_a_replaced_broker_are_cleared() -> None:
    stage = Stage()
    stage.scripts.start("s", [], [stage.step("a", 0, 2)], 0.0)
    stage.scripts.clear()
    assert stage.scripts.remove("*", 1.0) == []
    assert stage.done == [(0.0, "a")]
