"""Delta tables of jobs and streams: the rows of one process, in transactions that can be repeated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from spark import traces

pytest.importorskip("pyspark")

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from kwire.analysis.columns import Row
from kwire.analysis.tables import TABLES
from kwire.spark import bundles, delta, parts
from kwire.spark import stream as streams
from kwire.spark.increments import final_mark, final_marks
from kwire.spark.job import Job
from kwire.spark.output import Output
from kwire.spark.stream import Stream

LIMIT = 900  # seconds
EVENTS = TABLES["group_events"]
Tables = dict[str, list[Row]]


def read(spark: SparkSession, place: Path) -> Tables:
    found = {}
    for name, table in TABLES.items():
        rows = spark.read.format("delta").load(f"{place}/{name}/capture_id=c")
        columns = (column.name for column in table.columns if column.name != "capture_id")
        found[name] = traces.rows(name, rows.selectExpr("'c' AS capture_id", *columns))
    return found


def operations(spark: SparkSession, path: object) -> list[str]:
    """Return the names of the transactions of a Delta table, the oldest first."""
    history = spark.sql(f"DESCRIBE HISTORY delta.`{path}`").orderBy("version")
    return [row.operation for row in history.collect()]


def staged(folder: Path, offsets: dict[str, list[int]]) -> list[str]:
    """Write events with these offsets, by file mark; return the paths of the files."""
    made = parts.Parts(str(folder))
    for mark, some in offsets.items():
        rows = [EVENTS.row(capture_id="c", ts=number, group_id="g", cluster="x", offset=number) for number in some]
        made.add(EVENTS.name, rows, mark)
    return made.close()


class TestOneTable:
    """Batches of rows in one table. Each row is identified by its offset."""

    @pytest.fixture
    def table(self, spark: SparkSession, tmp_path: Path) -> Any:
        path = str(tmp_path / "table")

        def write(number: int, offsets: dict[str, list[int]], stale: set[str] | None) -> list[int]:
            folder = tmp_path / f"{number}"
            rows = delta.stream_rows(spark, str(folder), EVENTS, staged(folder, offsets), number)
            if stale is None:
                delta.overwrite(rows, EVENTS, path)
            else:
                delta.replace(spark, rows, path, number, stale)
            return sorted(row.offset for row in spark.read.format("delta").load(path).select("offset").collect())

        write.path = path  # type: ignore[attr-defined]
        return write

    def test_batches_replace_current_rows_and_keep_final_ones(self, spark, table):
        k07, first, second = bundles.bucket_mark(7), final_mark(7, 0), final_mark(7, 1)
        assert table(0, {k07: [1, 2], first: [4], bundles.OPEN: [5]}, None) == [1, 2, 4, 5]
        for _ in range(2):  # the second time Spark repeats the batch
            assert table(1, {k07: [2, 6], second: [1]}, {k07, bundles.OPEN, second}) == [1, 2, 4, 6]
        third = final_mark(8, 2)
        assert table(2, {third: [8]}, {bundles.bucket_mark(8), third}) == [1, 2, 4, 6, 8]
        assert operations(spark, table.path) == ["WRITE", "MERGE", "MERGE", "WRITE"]
        detail = spark.sql(f"DESCRIBE DETAIL delta.`{table.path}`").first()
        assert detail.partitionColumns == ["date", "cluster", "is_final"]

    @pytest.mark.long
    def test_a_rebuilt_bucket_replaces_final_rows_too(self, table):
        k07, k08 = map(bundles.bucket_mark, (7, 8))
        assert table(0, {k07: [1], k08: [3], final_mark(7, 0): [4], final_mark(8, 0): [5]}, None) == [1, 3, 4, 5]
        again = final_mark(7, 1)
        assert table(1, {k07: [7], again: [1, 2]}, {k07, again, final_marks(7)}) == [1, 2, 3, 5, 7]
        assert table(2, {}, {k07, k08, final_mark(7, 2), final_mark(8, 2)}) == [1, 2, 5]

    def test_a_table_of_a_job_is_not_changed(self, spark, table, tmp_path):
        places = staged(tmp_path / "job", {"": [1]})
        delta.overwrite(delta.read_parquet(spark, str(tmp_path / "job"), EVENTS, places), EVENTS, table.path)
        with pytest.raises(ValueError, match="was not written by this stream"):
            table(1, {}, {bundles.OPEN})


@pytest.mark.long
def test_job_has_the_same_rows(spark, tmp_path):
    """A second job replaces the rows of the first."""
    place = tmp_path / "out[1]{x}"  # no pattern
    for path in traces.COMMITTED[:2]:
        Job([str(path)], Output(str(place), "delta"), "c").run(spark)
        assert read(spark, place) == traces.single([path], "c")


FAULTS = (  # functions that fail once after their call, in the second batch; in the order of the phases
    (streams, "write_update", 2),
    (Stream, "_save_summary", 1),
    (delta, "replace", 5),
    (Output, "put", 1),
)


@pytest.mark.long
def test_stream_interrupted_in_each_phase_has_the_same_rows(spark, tmp_path, monkeypatch):
    """After each batch the tables are those of one process."""
    paths = traces.cut(traces.COMMITTED[1], tmp_path / "rotating", 3)
    place = tmp_path / "out"
    stream = Stream(
        [str(tmp_path / "rotating")], Output(str(place), "delta"), "c", settle=0.0, files=1, settled_us=2_000_000
    )
    for owner, name, call in FAULTS:
        function, done = getattr(owner, name), []

        def failing(*arguments: Any, function: Any = function, done: Any = done, call: int = call) -> Any:
            result = function(*arguments)
            done.append(arguments)
            if len(done) == call:
                raise KeyError("on purpose")
            return result

        with monkeypatch.context() as patch:
            patch.setattr(owner, name, failing)
            with pytest.raises(StreamingQueryException, match="on purpose"):
                stream.start(spark, once=True).awaitTermination(LIMIT)
            stream.finish(spark)  # changes nothing: Spark repeats the batch
    assert read(spark, place) == traces.single(paths[:2], "c")
    assert stream.start(spark, once=True).awaitTermination(LIMIT)
    stream.finish(spark)
    assert read(spark, place) == traces.single(paths, "c")
    assert set(operations(spark, f"{place}/frames/capture_id=c")) == {"WRITE", "MERGE"}  # a repeated batch merges
