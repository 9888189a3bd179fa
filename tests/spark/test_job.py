"""Spark makes the same rows as one process, of every capture, however the files are cut."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import commands
import pytest
from captures import snapped
from click.testing import CliRunner
from effort import usual_and_long
from elsewhere import bucket
from spark import traces

pytest.importorskip("pyspark")

from pyspark import TaskContext
from pyspark.sql import SparkSession

from kwire.analysis import parquet
from kwire.analysis.columns import SPARK, rows_of
from kwire.analysis.tables import EVERY, ON_REQUEST, TABLES
from kwire.capture.files.splits import guessed
from kwire.cli.groups import command as groups
from kwire.spark import first_stage, group_inputs, read_frames, second_stage
from kwire.spark.capture_summary import summary_of
from kwire.spark.command import command
from kwire.spark.input_files import files
from kwire.spark.job import Job, name_of, ordered_references
from kwire.spark.output import Output
from kwire.spark.parts import EXACT
from kwire.spark.segment_references import parts


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return traces.long_capture(tmp_path_factory.mktemp("long"))


@contextmanager
def small_batches(spark: SparkSession) -> Iterator[None]:
    """Use batches of 50 segments; after each one it is decided whether a connection is cut."""
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(name)
    spark.conf.set(name, "50")
    try:
        yield
    finally:
        spark.conf.set(name, before)


WAYS = [(65_536, None), (100_003, ()), (1 << 40, None)]  # bytes of a part; files whose parts are guessed, None for all


@pytest.mark.parametrize(("size", "guess"), usual_and_long(WAYS[:1], WAYS[1:]))
def test_same_rows(spark, long, tmp_path, size, guess):
    """All groups and connections except the smallest are cut into slices here."""
    paths = files([str(path) for path in [*traces.captures(), long, traces.strange(tmp_path)]])
    job = Job(paths, Output(str(tmp_path / "out")), "c", size, guess, slice_size=3_000, slice_calls=5)
    with small_batches(spark):
        summary = job.run(spark)
    assert summary.sliced > 20
    assert any(count > 4 for count in summary.slices(3_000).values())
    result = parquet.read(tmp_path / "out")
    assert result == traces.single(paths, "c")
    assert {row["reason"] for row in result["problems"]} == {None, "gaps", "not_tcp", "tls"}
    assert [problem.reason for problem in summary.problems] == [
        row["error"] for row in result["problems"] if row["error"]
    ]
    assert len(summary.problems) == 2


def test_few_calls_send_data_to_groups(spark, long, tmp_path, monkeypatch):
    """Each call costs 25 ms, and a single task would make all of them if each task of the first stage needed one."""
    send, calls = group_inputs.send_to_groups, tmp_path / "calls"
    calls.mkdir()

    def counted(*arguments: Any) -> Iterator[Any]:
        (calls / uuid4().hex).touch()
        return send(*arguments)

    monkeypatch.setattr("kwire.spark.second_stage.send_to_groups", counted)
    monkeypatch.setattr("kwire.spark.job.A_TASK", 50_000)  # many tasks of the first stage
    Job(files([str(long)]), Output(str(tmp_path / "out")), "c", 65_536).run(spark)
    assert len(list(calls.iterdir())) == 1


@pytest.mark.parametrize("assignor", usual_and_long([None], ["sticky"]))
def test_small_captures_have_the_same_rows_from_one_task(spark, long, tmp_path, assignor):
    paths = files([str(path) for path in [*traces.captures(), long, traces.strange(tmp_path)]])
    output = Output(str(tmp_path / "out"), more=tuple(ON_REQUEST) if assignor else ())
    context = spark.sparkContext
    context.setJobGroup(f"small {assignor}", "")
    try:
        summary = Job(paths, output, "c", assignor=assignor).run(spark)
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
    (number,) = context.statusTracker().getJobIdsForGroup(f"small {assignor}")
    (stage,) = context.statusTracker().getJobInfo(number).stageIds
    assert context.statusTracker().getStageInfo(stage).numTasks == 1
    assert parquet.read(tmp_path / "out", output.names) == traces.single(paths, "c", assignor)
    assert len(summary.problems) == 2


@pytest.mark.parametrize(
    ("assignor", "size"), usual_and_long([("sticky", 65_536)], [("cooperative-sticky", 1 << 40), ("uniform", 100_003)])
)
def test_replayed_groups_have_the_same_rows(spark, long, tmp_path, assignor, size):
    """Many groups of several clusters, with several names more than once: each is replayed by one task."""
    paths = files([str(path) for path in [*traces.captures(), long]])
    output = Output(str(tmp_path / "out"), more=tuple(ON_REQUEST))
    Job(paths, output, "c", size, assignor=assignor).run(spark)
    expected = traces.single(paths, "c", assignor)
    assert parquet.read(tmp_path / "out", tuple(EVERY)) == expected
    assert len({(row["group_id"], row["cluster"]) for row in expected["what_if"]}) > 10
    assert any(row["elsewhere"] for row in expected["what_if"])


@pytest.mark.long
def test_replayed_groups_in_other_formats(spark, tmp_path):
    paths = [str(traces.COMMITTED[1])]
    arguments = ["--output", str(tmp_path / "out"), "--format", "json", "--capture-id", "c"]
    result = CliRunner().invoke(command, [*arguments, "--input", paths[0], "--what-if", "range"])
    assert (result.exit_code, result.output) == (0, "")
    expected = traces.single(paths, "c", "range")
    for name in ON_REQUEST:
        columns = [column.name for column in ON_REQUEST[name].columns if column.name != "capture_id"]
        types = ", ".join(f"{c.name} {SPARK[c.type]}" for c in ON_REQUEST[name].columns if c.name != "capture_id")
        actual = spark.read.schema(types).options(**EXACT).json(f"{tmp_path}/out/{name}/capture_id=c")
        rows = rows_of(actual.selectExpr("'c' AS capture_id", *columns).toArrow())
        assert ON_REQUEST[name].sorted(rows) == expected[name] != []


def test_run_without_what_if_removes_tables_of_an_earlier_one(spark, tmp_path):
    arguments = ["--input", str(traces.COMMITTED[1]), "--output", str(tmp_path), "--capture-id", "c"]
    for more, there in ([*arguments, "--what-if", "sticky"], {*EVERY}), (arguments, {*TABLES}):
        assert CliRunner().invoke(command, more).exit_code == 0
        assert {path.parent.name for path in tmp_path.glob("*/capture_id=c")} == there


def test_tasks_that_fail_are_done_again(spark, long, tmp_path):
    """Files that a task wrote before it failed are not in the tables."""
    paths = [str(long)]

    def breaking(batches: Any) -> Iterator[Any]:
        for batch in batches:
            yield batch
            if TaskContext.get().attemptNumber() == 0:
                raise ValueError("on purpose")

    output = Output(str(tmp_path))
    with output.staging() as staging:
        ordered = ordered_references(spark, paths, 65_536)
        result = first_stage.connection_bundles(
            ordered.mapInArrow(breaking, ordered.schema), paths, "c", staging
        ).persist()
        summary = summary_of(result)
        written = second_stage.write_problems(summary, "c", staging)
        written += second_stage.write_tables(result.mapInArrow(breaking, result.schema), summary, "c", staging)
        output.put(spark, staging, "c", summary.written + written)
        result.unpersist()
    assert parquet.read(tmp_path) == traces.single(paths, "c")


@pytest.mark.long
def test_guessed_parts_give_the_same_rows(spark, long, tmp_path):
    """A capture that contains a capture is included: there the guesses are wrong."""
    inside = tmp_path / "inside.pcap"
    data = long.read_bytes()
    pieces = (data[at : at + 200_000] for at in range(0, len(data), 200_000))
    head = struct.pack("<II", 1_700_000_000, 0)
    records = (head + struct.pack("<II", len(one) + 54, len(one) + 54) + bytes(54) + one for one in pieces)
    inside.write_bytes(traces.content(long)[:24] + b"".join(records))
    size = 150_000
    assert guessed(str(inside), size) != parts(str(inside), size)
    paths = files([str(inside), str(long)])
    Job(paths, Output(str(tmp_path / "out")), "c", size).run(spark)
    assert parquet.read(tmp_path / "out") == traces.single(paths, "c")


def test_captures_and_tables_elsewhere(spark, long, tmp_path):
    """Captures and tables can be in an object store."""
    with bucket() as store:
        store.put("in/long.pcap", long.read_bytes())
        store.put("in/packed.pcap.gz", traces.PACKED.read_bytes())
        paths = files([store.address("in")])
        for some in (paths[:1], paths):  # the rows of the first are replaced
            Job(some, Output(store.address("out")), "c", 400_000).run(spark)
        expected = traces.single(paths, "c")
        keys = store.keys("out")
        for key in keys:
            (tmp_path / key).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / key).write_bytes(store.get(key))
    assert parquet.read(tmp_path / "out") == expected
    assert {key.split("/")[1] for key in keys} == set(TABLES)


TEXT_MAP = {"map<int,long>": "MAP<STRING, BIGINT>"}  # keys in JSON are text
FORMATS = {  # options for reading them, and types that differ from those of the tables
    "json": (EXACT, TEXT_MAP),
    "orc": ({}, {}),
    "csv": (EXACT | {"header": "true", "escape": '"'}, {"list<string>": "STRING", "map<int,long>": "STRING"}),
}


@pytest.mark.parametrize("form", usual_and_long(["csv"], ["json", "orc"]))
def test_other_formats(spark, tmp_path, form):
    """The rows come back exactly; in CSV lists and maps are JSON."""
    options, other = FORMATS[form]
    paths = [str(traces.COMMITTED[0])]
    Job(paths, Output(str(tmp_path), form), "c").run(spark)
    for name, rows in traces.single(paths, "c").items():
        columns = [column for column in TABLES[name].columns if column.name != "capture_id"]
        schema = ", ".join(f"{column.name} {other.get(column.type, SPARK[column.type])}" for column in columns)
        result = spark.read.format(form).schema(schema).options(**options).load(f"{tmp_path}/{name}/capture_id=c")
        made = rows_of(result.selectExpr("'c' AS capture_id", *(column.name for column in columns)).toArrow())
        for row in made:
            for column in columns:
                if other.get(column.type) == "STRING" and row[column.name] is not None:
                    row[column.name] = json.loads(row[column.name])
                if column.type in TEXT_MAP and column.type in other:
                    row[column.name] = {int(key): value for key, value in row[column.name].items()}
        assert TABLES[name].sorted(made) == rows, name


def test_the_command(spark, tmp_path, long):
    """The tables on disk are the same, also when they are overwritten; damage is reported."""
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(long.read_bytes()[:-5])
    for _ in range(2):
        arguments = ["--input", str(cut), "--output", str(tmp_path / "out"), "--split-size", "400000"]
        result = CliRunner().invoke(command, arguments)
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr == CliRunner().invoke(groups, ["--json", str(cut)]).stderr
        assert "ends inside a record" in result.stderr
    actual = parquet.read(tmp_path / "out")
    expected = traces.single([cut], "cut.pcap")
    assert actual == expected
    assert set(actual) == set(TABLES)
    written = spark.read.parquet(str(tmp_path / "out" / "frames"))
    assert {"capture_id", "date"} <= set(written.columns)
    assert written.count() == len(expected["frames"])


@pytest.mark.long
def test_packets_cut_by_a_snap_length_have_the_same_rows(spark, tmp_path):
    """The lines on stderr and the exit code are the same, too."""
    for number, path in enumerate(traces.COMMITTED[3:9:2]):
        (tmp_path / f"{number}.pcap").write_bytes(snapped(path, 200))
    arguments = [
        "--input",
        str(tmp_path),
        "--output",
        str(tmp_path / "out"),
        "--split-size",
        "16000",
        "--capture-id",
        "c",
    ]
    result = CliRunner().invoke(command, arguments)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.count("packets truncated by the snap length") == 3
    assert result.stderr == CliRunner().invoke(groups, ["--json", str(tmp_path)]).stderr
    actual = parquet.read(tmp_path / "out")
    assert actual == traces.single(files([str(tmp_path)]), "c")
    assert {row["incomplete"] for row in actual["rebalances"]} == {False, True}


def test_read_frames(spark, long):
    frames = read_frames(spark, str(long))
    assert frames.columns == [column.name for column in TABLES["frames"].columns]
    assert frames.groupBy("api_name").count().where("api_name = 'JoinGroup'").first()["count"] > 0


def test_job_does_not_replace_the_tables_of_a_stream(tmp_path, monkeypatch):
    """The stream would add its next rows to those of the job."""
    monkeypatch.setattr("kwire.spark.command.start", lambda *_, **__: None)
    (tmp_path / "_stream" / "capture_id=c" / "summary").mkdir(parents=True)
    arguments = ["--input", str(traces.COMMITTED[0]), "--output", str(tmp_path), "--capture-id", "c"]
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: a stream has written the tables of c: choose another --capture-id")
    assert [path.name for path in tmp_path.iterdir()] == ["_stream"]


def test_read_frames_of_a_folder_without_captures(spark, tmp_path):
    with pytest.raises(FileNotFoundError, match="no capture files"):
        read_frames(spark, str(tmp_path))


USAGE = [
    ["--input", "/nowhere", "--output", "o"],
    ["--output", "o"],
    ["--input", "x", "--output", "o", "--once"],
    ["--input", "x", "--output", "o", "--what-if", "best"],
    ["--input", "x", "--output", "o", "--what-if", "sticky", "--stream"],
    ["--input", str(traces.COMMITTED[0]), "--output", "o", "--class-archive", "/nowhere/x.jsa"],
]


@pytest.mark.parametrize("arguments", USAGE)
def test_wrong_usage(arguments):
    assert CliRunner().invoke(command, arguments).exit_code == 2


def test_missing_java_is_reported(tmp_path):
    arguments = ["pipeline", "--input", str(traces.COMMITTED[0]), "--output", str(tmp_path / "out")]
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"} | {"PATH": str(tmp_path)}
    with commands.command(*arguments, env=environment) as process:
        _, said = process.communicate()
    assert process.returncode == 1
    assert b"Error: Spark did not start: " in said
    assert b"; Spark needs Java 17" in said
    assert b"Traceback" not in said


NAMES = [
    (["/a/b/x.pcap"], "x.pcap"),
    (["/a/b/*.pcap"], "b"),
    (["/a/b/x", "/a/b/y"], "b"),
    (["/a/b*/c/x"], "a"),
    (["s3://a/x.pcap", "s3://b/y.pcap"], "capture"),
    (["s3://a/x.pcap", "s3://a/y.pcap"], "a"),
]


@pytest.mark.parametrize(("inputs", "name"), NAMES)
def test_the_name_of_a_capture(inputs, name):
    assert name_of(inputs) == name


def test_the_name_of_a_capture_with_brackets(tmp_path):
    (tmp_path / "a[1].pcap").touch()
    assert name_of([str(tmp_path / "a[1].pcap")]) == "a[1].pcap"


def test_job_without_captures_is_refused(spark, tmp_path):
    with pytest.raises(ValueError, match="the job has no captures: paths is empty"):
        Job([], Output(str(tmp_path)), "c").run(spark)
