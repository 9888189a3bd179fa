"""The data that tasks return and write, without a session."""

from __future__ import annotations

from typing import Any

import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

from kwire.analysis import parquet
from kwire.analysis.events import CLASSIC, GroupEvent
from kwire.analysis.tables import TABLES
from kwire.spark import bundles, parts

DAY = parts.DAY


def frame(capture_id: Any, ts: Any, number: int = 0) -> Any:
    return TABLES["frames"].row(capture_id=capture_id, conn_id="c", number=number, request_ts=ts)


def written(staging: Any, name: str, rows: Any, mark: str = "") -> Any:
    made = parts.Parts(str(staging))
    made.add(name, rows, mark)
    return made.close()


@pytest.mark.parametrize("capture_id", ["x.pcap", "007", "a/b=c", "50 %", "größe"])
def test_rows_by_capture_and_day(tmp_path, capture_id):
    rows = [frame(capture_id, ts) for ts in (None, 5, DAY - 1, DAY)]
    parts.put(str(tmp_path / "s"), str(tmp_path / "t"), capture_id, written(tmp_path / "s", "frames", rows))
    assert parquet.read(tmp_path / "t") == {name: rows if name == "frames" else [] for name in TABLES}
    (capture,) = (tmp_path / "t" / "frames").iterdir()
    days = sorted(path.name for path in capture.iterdir())
    assert days == ["date=1970-01-01", "date=1970-01-02", f"date={parts.UNKNOWN_DAY}"]


def test_a_file_has_the_rows_of_one_cluster(tmp_path):
    rows = [
        TABLES["members"].row(capture_id="c", group_id=f"{n}", cluster=cluster, joined_ts=5)
        for n, cluster in enumerate(["alpha", None, "beta", "alpha"])
    ]
    files = written(tmp_path / "s", "members", rows)
    contents = [pq.read_table(tmp_path / "s" / path, partitioning=None)["cluster"].to_pylist() for path in files]
    assert sorted(contents, key=str) == [["alpha", "alpha"], ["beta"], [None]]


def test_files_of_another_attempt_are_not_used(tmp_path):
    """An attempt of a task may be interrupted, fail, or run twice."""
    cut_off = parts.Parts(str(tmp_path / "s"))
    cut_off.add("frames", [frame("c", 1)])
    for _ in range(2):
        files = written(tmp_path / "s", "frames", [frame("c", 1)])
    parts.put(str(tmp_path / "s"), str(tmp_path / "t"), "c", files)
    assert parquet.read(tmp_path / "t", ["frames"]) == {"frames": [frame("c", 1)]}


def test_only_stale_files_are_deleted(tmp_path):
    def put(number: Any, mark: int, stale: Any) -> list[Any]:
        files = written(tmp_path / "s", "frames", [frame("c", 1, number)], mark) if mark else []
        parts.put(str(tmp_path / "s"), str(tmp_path / "t"), "c", files, stale)
        return [row["number"] for row in parquet.read(tmp_path / "t", ["frames"])["frames"]]

    assert put(1, "one", None) == [1]
    assert put(2, "two", {"two"}) == [1, 2]
    assert put(3, "two", {"two"}) == [1, 3]
    assert put(0, "", {"one", "two"}) == []
    assert put(4, "one", set()) == [4]
    assert put(5, "two", None) == [5]


def test_names_that_are_not_utf8(tmp_path):
    """The tables contain such names with escapes for the invalid bytes, and all other rows are written."""
    happened = [
        GroupEvent(ts=n, group_id=name, protocol=CLASSIC, event="leave") for n, name in enumerate(["a\udcff", "b"])
    ]
    made = bundles.batch(list(bundles.Bundler().add({"events": happened})))
    assert [one.about for one in bundles.bundles_of(made)] == ["group a\\udcff", "group b"]
    rows = [
        event.row("c") for one in bundles.bundles_of(made) for event in bundles.events_of(bundles.unbundle(one.rows))
    ]
    parts.put(str(tmp_path / "s"), str(tmp_path / "t"), "c", written(tmp_path / "s", "group_events", rows))
    result = parquet.read(tmp_path / "t", ["group_events"])["group_events"]
    assert [row["group_id"] for row in result] == ["a\\udcff", "b"]
