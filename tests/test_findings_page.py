from __future__ import annotations

import json

import pytest
from findings_page import made, precision, recall, renewed
from golden import ROOT

from kwire.analysis.findings.catalogue import DETECTORS

RESULTS = json.loads((ROOT / "benchmarks" / "results" / "findings.json").read_text("utf-8"))


def test_docs_are_up_to_date() -> None:
    text = (ROOT / "docs" / "findings.md").read_text("utf-8")
    assert renewed(text, RESULTS) == text, "make docs"


def test_every_detector_was_measured_and_reaches_0_9() -> None:
    assert list(RESULTS) == [detector.name for detector in DETECTORS]
    for name, counts in RESULTS.items():
        assert counts["hits"] + counts["misses"] >= 5, name
        assert counts["false_alarms"] + counts["right_silences"] >= 5, name
        assert min(precision(counts), recall(counts)) >= 0.9, name


def test_thresholds_are_on_the_page() -> None:
    text = made(RESULTS)
    for detector in DETECTORS:
        assert f"### {detector.name}\n" in text
        for one in detector.thresholds:
            assert f"| `{detector.name}.{one.name}` | {one.default:g} |" in text


def test_without_marks() -> None:
    with pytest.raises(ValueError, match="marks"):
        renewed("# Nothing", RESULTS)
