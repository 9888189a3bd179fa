"""Captures that rotate: connections go on from file to file, and from run to run."""

from __future__ import annotations

import pytest
from spark import traces

pytest.importorskip("pyspark")

from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester

from kwire.analysis import parquet
from kwire.spark import source
from kwire.spark.output import Output
from kwire.spark.stream import IDLE, Follower, Stream, unpacked

LIMIT = 120  # seconds


@pytest.fixture(scope="module")
def long(tmp_path_factory):
    return traces.long_capture(tmp_path_factory.mktemp("long"))


def test_an_interrupted_stream_gives_the_rows_of_one_process(spark, long, tmp_path):
    """What was written before the interruption is done again, and replaced; the rest follows."""
    paths = traces.cut(long, tmp_path / "rotating", 4)
    later = [path.rename(tmp_path / path.name) for path in paths[2:]]
    stream = Stream([str(tmp_path / "rotating")], Output(str(tmp_path / "out")), "c", settle=0.0)

    def run():
        query = stream.start(spark, once=True)
        assert query.awaitTermination(LIMIT)

    run()
    assert parquet.read(tmp_path / "out") == traces.single(paths[:2], "c")  # also what is still open
    commits = tmp_path / "out" / "_stream" / "c" / "checkpoint" / "commits"
    for commit in commits.glob("*0*"):
        commit.unlink()
    for path in later:
        path.rename(tmp_path / "rotating" / path.name)
    run()
    assert parquet.read(tmp_path / "out") == traces.single(paths, "c")


def rows_by_connection(paths, files=None):
    found = {}
    for number, path in enumerate(paths):
        for split in source.parts(str(path), 1 << 40):
            for batch in source.references(source.Part(number, split)):
                for row in batch.to_pylist():
                    found.setdefault(row["connection"], []).append(Row(**row))
    return found


def said(packed):
    import pyarrow as pa

    batch = pa.RecordBatch.from_pylist([row.asDict() for row in packed], pa.schema([("rows", pa.binary())]))
    return [row for made in unpacked([batch]) for row in made.to_pylist()]


def frames(rows, *, provisional):
    return [
        (row["frames"]["conn_id"], row["frames"]["number"])
        for row in rows
        if row["kind"] == "frames" and row["provisional"] is provisional
    ]


class TestFollower:
    """Without a session: the processor alone, as Spark calls it."""

    def test_a_connection_over_two_batches(self, long, tmp_path):
        first, second = traces.cut(long, tmp_path / "r", 2)
        tester = TwsTester(Follower("c"), timeMode="ProcessingTime")
        found = []
        for path in (first, second):
            for key, rows in rows_by_connection([path]).items():
                found += said(tester.test(key, rows))
        expected = {(row["conn_id"], row["number"]) for row in traces.single([long], "c")["frames"]}
        told = set(frames(found, provisional=False))
        assert told <= expected
        assert told | set(frames(found, provisional=True)) >= expected

    def test_one_that_falls_silent_is_over(self, long):
        key, rows = max(rows_by_connection([long]).items(), key=lambda item: len(item[1]))
        tester = TwsTester(Follower("c", idle=1_000), timeMode="ProcessingTime")
        tester.test(key, rows[:-20])
        assert tester.peekValueState("following", key) is not None
        ended = said(tester.setProcessingTime(IDLE))
        assert [row["kind"] for row in ended if not row["provisional"]].count("connections") == 1
        assert tester.peekValueState("following", key) is None
