"""Spark makes the same rows as one process, of every capture, however the files are cut."""

from __future__ import annotations

import pytest
from click.testing import CliRunner
from spark import traces

pytest.importorskip("pyspark")

from kwire.analysis import parquet
from kwire.analysis.tables import TABLES
from kwire.cli.pipeline import command
from kwire.spark import read_frames, stages
from kwire.spark.job import name_of, traffic
from kwire.spark.source import files


@pytest.fixture(scope="module")
def long(tmp_path_factory):
    return traces.long_capture(tmp_path_factory.mktemp("long"))


@pytest.mark.parametrize("size", [65_536, 1 << 40])
def test_same_rows(spark, long, size):
    paths = files([str(path) for path in [*traces.captures(), long]])
    found = stages.tables(traffic(spark, paths, "c", size), "c")
    expected = traces.single(paths, "c")
    for name, table in found.rows.items():
        assert traces.rows(name, table) == expected[name], name
    assert found.empty == {name for name, made in expected.items() if not made}
    assert found.problems == []
    spark.catalog.clearCache()


def test_the_command(spark, tmp_path, long):
    """The tables on disk are the same, also when they are written over a second time; damage is told."""
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(long.read_bytes()[:-5])
    for _ in range(2):
        asked = ["--input", str(cut), "--output", str(tmp_path / "out"), "--split-size", "65536"]
        result = CliRunner().invoke(command, asked)
        assert (result.exit_code, result.stdout) == (1, "")
        assert "ends inside a record" in result.stderr
    found = parquet.read(tmp_path / "out")
    expected = traces.single([cut], "cut.pcap")
    assert found == expected
    assert set(found) == set(TABLES)
    written = spark.read.parquet(str(tmp_path / "out" / "frames"))
    assert {"capture_id", "date"} <= set(written.columns)
    assert written.count() == len(expected["frames"])


def test_read_frames(spark, long):
    frames = read_frames(spark, str(long))
    assert frames.columns == [column.name for column in TABLES["frames"].columns]
    assert frames.groupBy("api_name").count().where("api_name = 'JoinGroup'").first()["count"] > 0


USAGE = [["--input", "/nowhere", "--output", "o"], ["--output", "o"], ["--input", "x", "--output", "o", "--once"]]


@pytest.mark.parametrize("arguments", USAGE)
def test_wrong_usage(arguments):
    assert CliRunner().invoke(command, arguments).exit_code == 2


NAMES = [(["/a/b/x.pcap"], "x.pcap"), (["/a/b/*.pcap"], "b"), (["/a/b/x", "/a/b/y"], "b"), (["/a/b*/c/x"], "a")]


@pytest.mark.parametrize(("inputs", "name"), NAMES)
def test_the_name_of_a_capture(inputs, name):
    assert name_of(inputs) == name
