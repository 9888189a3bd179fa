"""Findings after each micro-batch of a stream are those of the capture up to then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from effort import amount
from spark import traces
from tools.trouble import SCENARIOS, Scenario

pytest.importorskip("pyspark")

from spark.batches import Batches

SETTLED_US = 20_000_000  # longer than the rebalances of the stories


def texts(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return sorted(repr(dict(row)) for row in rows)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.detector)
def test_findings_after_each_batch(scenario: Scenario, tmp_path: Path) -> None:
    for number in range(amount(1, 4)):
        folder = tmp_path / str(number)
        folder.mkdir()
        paths = traces.cut(scenario.planted(number).capture(folder), folder, 8)
        batches = Batches(SETTLED_US)
        for place, path in enumerate(paths):
            batches.add(path)
            assert texts(batches.rows("findings")) == texts(traces.single(paths[: place + 1], "c")["findings"]), place
        assert scenario.detector in {row["finding"] for row in batches.rows("findings")}
        assert set() in batches.rebuilt[4:]


def test_changed_thresholds_apply_to_earlier_events(tmp_path: Path) -> None:
    """A stream that is started again with other thresholds rebuilds the buckets of the next batch."""
    (scenario,) = (one for one in SCENARIOS if one.detector == "heartbeat-near-miss")
    paths = traces.cut(scenario.planted(0).capture(tmp_path), tmp_path, 8)
    found = []
    batches = Batches(SETTLED_US)
    for place, path in enumerate(paths):
        batches.settings = {} if place < len(paths) - 1 else {"heartbeat-near-miss.share": 2.0}
        batches.add(path)
        found.append("heartbeat-near-miss" in {row["finding"] for row in batches.rows("findings")})
    assert found[-2:] == [True, False]
    assert batches.rebuilt[-1]
