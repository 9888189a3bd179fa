"""The conversion of small captures by one task: which captures are small, and that the rows are those of many tasks."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from effort import usual_and_long
from spark import traces
from tools.pcap import Talk, packets, pcap

pytest.importorskip("pyspark")

from pyspark.sql import SparkSession

from kwire.analysis import parquet
from kwire.analysis.tables import ON_REQUEST
from kwire.spark import job, one_task
from kwire.spark.input_files import files
from kwire.spark.job import Job, is_small
from kwire.spark.output import Output
from kwire.spark.source import OPENING, CaptureReader
from kwire.spark.staging_folders import unpacked_in

LIMIT = 1_000_000


@contextmanager
def stages_run(spark: SparkSession, name: str) -> Iterator[Callable[[], list[int]]]:
    """Yield a function that returns the numbers of tasks of the stages so far, in order of the jobs."""
    context = spark.sparkContext
    tracker = context.statusTracker()

    def tasks() -> list[int]:
        jobs = [tracker.getJobInfo(number) for number in sorted(tracker.getJobIdsForGroup(name))]
        return [tracker.getStageInfo(stage).numTasks for one in jobs for stage in one.stageIds]

    context.setJobGroup(name, "")
    try:
        yield tasks
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)


SIZES = [  # name and bytes of each file
    ([("a.pcap", LIMIT)], True),
    ([("a.pcap", LIMIT + 1)], False),
    ([("a.pcap", LIMIT - OPENING), ("b.pcap", 1)], True),
    ([("a.pcap", LIMIT - OPENING + 1), ("b.pcap", 1)], False),
    ([("a.pcap.gz", LIMIT // 10)], True),
    ([("a.pcap.gz", LIMIT // 10 + 1)], False),
    ([(f"{n}.pcap", 0) for n in range(LIMIT // OPENING)], True),
    ([(f"{n}.pcap", 0) for n in range(LIMIT // OPENING + 1)], False),
]


@pytest.mark.parametrize(("sizes", "expected"), SIZES)
def test_what_is_small(tmp_path, monkeypatch, sizes, expected):
    monkeypatch.setattr(job, "SMALL", LIMIT)
    for name, size in sizes:
        with (tmp_path / name).open("wb") as file:
            file.truncate(size)
    assert is_small([str(tmp_path / name) for name, _ in sizes]) is expected


def test_the_limit_is_20_mib():
    assert job.SMALL == 20 * 1024 * 1024


def expanding(path: Path) -> Path:
    """A gzip file of 40 kB with a capture of 2 MB: calls, then a connection that sends zeros."""
    talk = Talk(client=("10.9.9.9", 40_000))
    zeros = pcap(packets([*talk.open(), *talk.say(True, bytes(2_000_000))]))
    data = gzip.compress(traces.content(traces.COMMITTED[0]) + zeros[traces.HEAD :])
    assert len(data) * job.EXPANSION < LIMIT
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("name", usual_and_long(["bomb.pcap.gz"], ["bomb.pcap"]))
def test_gzip_that_expands_is_not_held_by_one_task(spark, tmp_path, monkeypatch, name):
    """The task ends when it has found more content than the limit, and the usual stages run."""
    path = expanding(tmp_path / name)
    rows = traces.single([path], "c")
    for limit, usual_stages in ((LIMIT, True), (3 * LIMIT, False)):
        monkeypatch.setattr(job, "SMALL", limit)
        with stages_run(spark, f"{name} {limit}") as tasks:
            Job([str(path)], Output(str(tmp_path / "out")), "c").run(spark)
            assert tasks()[0] == 1
            assert (len(tasks()) > 1) is usual_stages
        assert parquet.read(tmp_path / "out") == rows
        assert not list(tmp_path.glob("out/_staging*"))


def test_content_is_read_up_to_the_limit(tmp_path):
    """The limit of the one task applies to all files together."""
    paths = [str(expanding(tmp_path / f"{number}.pcap.gz")) for number in range(2)]

    def content(limit: int) -> tuple[bool, int]:
        reader = CaptureReader(paths, limit, str(tmp_path / "unpacked"), (), packed=True)
        read: list[Any] = []

        def batches() -> Iterator[Any]:
            for part in reader.partitions():
                for batch in reader.read(part):
                    read.append(batch)
                    yield batch

        return one_task.gathered(batches(), limit) is not None, len(read)

    is_complete, every = content(5 * LIMIT)
    assert is_complete
    for limit in (LIMIT, 3 * LIMIT):
        is_complete, some = content(limit)
        assert not is_complete
        assert some < every


def test_many_rows_are_not_held_by_one_task(spark, tmp_path):
    paths = [str(traces.COMMITTED[0])]
    reader = CaptureReader(paths, LIMIT, unpacked_in(str(tmp_path)), (), packed=True)
    for most, is_converted in ((100, False), (100_000, True)):
        summary = one_task.write_small(spark, reader, "c", str(tmp_path), most_rows=most)
        assert (summary is not None) is is_converted


def test_session_without_rdds_has_the_same_rows(spark, tmp_path):
    """The sessions of Spark Connect have no RDDs."""
    paths = [str(traces.COMMITTED[0])]
    reader = CaptureReader(paths, LIMIT, unpacked_in(str(tmp_path)), (), packed=True)
    connected: Any = SimpleNamespace(range=spark.range)
    summaries = []
    for session in (spark, connected):
        summary = one_task.write_small(session, reader, "c", str(tmp_path))
        assert summary is not None
        assert {place.partition("/")[0] for place in summary.written} >= {"frames", "connections"}
        summary.written = [place.rpartition("/")[0] for place in summary.written]
        summaries.append(summary)
    assert summaries[0] == summaries[1]


def shaken(chosen: random.Random, folder: Path) -> Sequence[Path]:
    """Return captures: some cut into files as by rotation, some compressed, some with bytes changed or missing."""
    made: list[Path] = []
    for number, path in enumerate(chosen.sample(traces.captures(), 3)):
        made += traces.cut(path, folder / str(number), chosen.randint(1, 3))
    for path in chosen.sample(made, len(made) // 2):
        data = bytearray(path.read_bytes())
        at = chosen.randrange(traces.HEAD, len(data))
        data[at : at + chosen.choice((0, 20))] = chosen.randbytes(20)
        path.write_bytes(data[: chosen.choice((None, -7))])
    for path in chosen.sample(made, len(made) // 3):
        packed = gzip.compress(path.read_bytes())
        path.unlink()
        path.with_name(f"{path.name}.gz").write_bytes(packed[: chosen.choice((None, -20))])
    return [*folder.rglob("*.pcap*")]


CHOICES = usual_and_long([(1, "sticky")], [(2, None), (3, "range"), (4, None), (5, "uniform"), (6, None)])


@pytest.mark.parametrize(("seed", "assignor"), CHOICES)
def test_rows_of_one_task_and_of_many_are_equal(spark, tmp_path, seed, assignor):
    """Damaged and compressed files, connections in several files, and replayed groups are included."""
    paths = files([str(path) for path in shaken(random.Random(seed), tmp_path)])
    more = tuple(ON_REQUEST) if assignor else ()
    tables, reports = [], []
    for size in (None, 40_000):
        output = Output(str(tmp_path / f"out-{size}"), more=more)
        with stages_run(spark, f"{seed} {size}") as tasks:
            reports.append(Job(paths, output, "c", size, assignor=assignor, slice_calls=50).run(spark))
            assert (len(tasks()) == 1) is (size is None)
        tables.append(parquet.read(tmp_path / f"out-{size}", output.names))
    assert tables[0] == tables[1] == traces.single(paths, "c", assignor)
    assert reports[0].damaged == reports[1].damaged != []
    assert reports[0].notes == reports[1].notes
