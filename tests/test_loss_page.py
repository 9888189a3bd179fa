from __future__ import annotations

import json

import pytest
from golden import ROOT
from loss_page import made, renewed

RESULTS = json.loads((ROOT / "benchmarks" / "results" / "lost_packets.json").read_text("utf-8"))


def test_docs_are_up_to_date() -> None:
    text = (ROOT / "docs" / "pipeline.md").read_text("utf-8")
    assert renewed(text, RESULTS) == text, "make docs"


def test_every_loss_rate_and_snap_length_was_measured() -> None:
    rates, lengths = (0, 0.1, 1, 5), (262_144, 1500, 256, 96)
    assert [(row["lost_percent"], row["snap"]) for row in RESULTS] == [
        (rate, snap) for rate in rates for snap in lengths
    ]
    whole = RESULTS[0]
    assert whole["commits"]["found"] == whole["commits"]["known"] > 1000
    assert whole["members"]["found"] == whole["members"]["known"]
    assert len(made(RESULTS).splitlines()) == 2 + len(RESULTS)


def test_without_marks() -> None:
    with pytest.raises(ValueError, match="marks"):
        renewed("# Nothing", RESULTS)
