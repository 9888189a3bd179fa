"""Clients that are not installed are found before a test starts anything: what was started would outlive the skip."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from interop.stage import FAMILIES, Stage


def clients_of(item: pytest.Item) -> list[str]:
    """The families that a test needs."""
    params = item.callspec.params if hasattr(item, "callspec") else {}
    return named_by(item.iter_markers("clients"), params.values())


def named_by(marks: Iterable[pytest.Mark], params: Iterable[object]) -> list[str]:
    """The families of the marker ``clients`` and of parameters: a family itself, or an object that has some."""
    named = [family for mark in marks for family in mark.args]
    for value in params:
        named += getattr(value, "families", [value])
    return [family for family in FAMILIES if family in named]


def refuse_late_skip(report: pytest.TestReport, funcargs: dict[str, object]) -> None:
    """Fail a test that looked for a tool after it had started clients. ``funcargs``: its fixtures."""
    started = any(stage.members for stage in funcargs.values() if isinstance(stage, Stage))
    if started and report.when == "call" and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped after clients were started: add @pytest.mark.clients(...); {report.longrepr}"
