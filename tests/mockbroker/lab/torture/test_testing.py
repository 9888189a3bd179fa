"""The fixture ``kafka_torture``."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("psutil")

from mockbroker.lab.torture.runner import MEGABYTE, Limits, Verdict
from mockbroker.lab.torture.testing import Torture

PROGRAM = str(Path(__file__).with_name("client.py"))
LIMITS = Limits(start=30, bad=0.2, recovery=15, memory=200 * MEGABYTE)


@pytest.mark.kafka_torture("no-results", "no-leaders", seed=4)
def test_a_test_runs_once_for_each_case(kafka_torture: Torture) -> None:
    result = kafka_torture.run([sys.executable, PROGRAM, "end"], limits=LIMITS)
    assert result.survived
    assert kafka_torture.seed == 4
    assert result.verdict is (Verdict.REFUSED if kafka_torture.case.name == "no-results" else Verdict.SKIPPED)
