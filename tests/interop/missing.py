"""A check for clients that are not installed, before a test starts processes, which would outlive the skip."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from interop.stage import FAMILIES, Stage


def clients_of(item: pytest.Item) -> list[str]:
    """Return the families that a test needs."""
    params = item.callspec.params if hasattr(item, "callspec") else {}
    return named_by(item.iter_markers("clients"), params.values())


def named_by(marks: Iterable[pytest.Mark], params: Iterable[object]) -> list[str]:
    """Return the families of the marker ``clients`` and of parameters: a family, or an object with families."""
    named = [family for mark in marks for family in mark.args]
    for value in params:
        named += getattr(value, "families", [value])
    return [family for family in FAMILIES if family in named]


def refuse_late_skip(report: pytest.TestReport, funcargs: dict[str, object]) -> None:
    """Fail a skipped test that had started clients before it looked for a tool. ``funcargs``: its fixtures."""
    started = any(stage.members for stage in funcargs.values() if isinstance(stage, Stage))
    if started and report.when == "call" and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped after clients were started: add @pytest.mark.clients(...); {report.longrepr}"
