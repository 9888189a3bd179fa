"""Captures that rotate: connections continue from file to file, and from run to run."""

from __future__ import annotations

import json
import re
from contextlib import nullcontext
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from captures import snapped
from spark import traces

pytest.importorskip("pyspark")

from click.testing import CliRunner
from pyspark.errors import StreamingQueryException
from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester

from kwire.analysis import parquet
from kwire.analysis.clusters import Clusters
from kwire.analysis.unread import Unread
from kwire.spark import bundles, group_inputs, parts, segment_references, stream_source, table_builder
from kwire.spark import stream as streams
from kwire.spark.bundles import (
    BUCKETS,
    OF_CALLERS,
    Bundle,
    about_client,
    about_group,
    about_transactions,
    bucket_of,
    unbundle,
)
from kwire.spark.capture_summary import CaptureSummary
from kwire.spark.command import command
from kwire.spark.increments import Buckets
from kwire.spark.output import Output, StreamedError
from kwire.spark.stale_buckets import buckets_of_names, buckets_of_unread
from kwire.spark.stream import Stream
from kwire.spark.stream_follower import IDLE, Follower
from kwire.spark.updates import bucket_column

LIMIT = 600  # seconds


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return traces.long_capture(tmp_path_factory.mktemp("long"), every_nth=3)


FAULTS = (  # functions that fail once after their call, in the second batch; in the order of the phases
    (streams, "write_update"),
    (Stream, "_save_summary"),
    (parts, "_delete_stale"),
    (Output, "put"),
)


def run_once(stream: Stream, spark: Any) -> None:
    """Run a stream up to the end of its files. If a Python process does not start within 10 s, as on
    a busy machine, Spark ends the query, and it is started again."""
    for attempts in (2, 1, 0):
        try:
            stream.start(spark, once=True).awaitTermination(LIMIT)
        except StreamingQueryException as error:
            if not attempts or "failed to connect back" not in str(error):
                raise
        else:
            return


def test_stream_interrupted_in_each_phase_has_the_same_rows(spark, long, tmp_path, monkeypatch):
    """Each phase of the second batch fails once; then the batch is repeated. A file is damaged. The folder has a file of
    an earlier job."""
    paths = traces.cut(long, tmp_path / "rotating", 3)
    paths[1].write_bytes(paths[1].read_bytes()[:-5])
    place = tmp_path / "out"
    stream = Stream([str(tmp_path / "rotating")], Output(str(place)), "c", settle=0.0, files=1, settled_us=2_000_000)
    (place / "frames" / "capture_id=c").mkdir(parents=True)
    (place / "frames" / "capture_id=c" / "part--of-a-job.parquet").write_bytes(b"replaced")
    for number, (owner, name) in enumerate(FAULTS):
        function, done = getattr(owner, name), []
        calls = 2 if number == 0 else 1  # the first run also does the first batch

        def failing(*arguments: Any, function: Any = function, done: Any = done, calls: int = calls) -> Any:
            result = function(*arguments)
            done.append(arguments)
            if len(done) == calls:
                raise KeyError("on purpose")
            return result

        with monkeypatch.context() as patch:
            patch.setattr(owner, name, failing)
            with pytest.raises(StreamingQueryException, match="on purpose"):
                run_once(stream, spark)
            stream.finish(spark)  # changes nothing: Spark repeats the batch
    assert parquet.read(place) == traces.single(paths[:2], "c")  # including rows that are not final
    assert stream.start(spark, once=True).awaitTermination(LIMIT)
    stream.finish(spark)
    assert parquet.read(place) == traces.single(paths, "c")
    assert stream.damaged == {str(paths[1])}


def test_rows_are_appended_and_current_ones_replaced(spark, long, tmp_path, monkeypatch):
    """After each batch the tables are those of one process."""
    paths = traces.cut(long, tmp_path / "rotating", 5)
    place = tmp_path / "out[1]{x}?"  # no pattern
    stream = Stream([str(tmp_path / "rotating")], Output(str(place)), "c", settle=0.0, files=1, settled_us=2_000_000)
    put, seen = Output.put, []

    def put_and_compare(*arguments: Any) -> None:
        put(*arguments)
        files = {path for path in place.rglob("*.parquet") if path.name.startswith("part-s")}
        seen.append(files)
        if len(seen) <= len(paths):
            expected = traces.single(paths[: len(seen)], "c")
            assert parquet.read(place) == expected

    monkeypatch.setattr(Output, "put", put_and_compare)
    assert stream.start(spark, once=True).awaitTermination(LIMIT)
    stream.finish(spark)
    assert parquet.read(place) == traces.single(paths, "c")
    assert any(earlier & later for earlier, later in pairwise(seen[1:]))  # final rows stay where they are


def test_spark_and_python_have_the_same_buckets(spark):
    keys = [about(f"{n}") for n in range(40) for about in (about_group, about_transactions)]
    keys += [about_client(f"{n}", "10.0.0.1") for n in range(40)]
    rows = (
        spark.createDataFrame([(key,) for key in keys], "about STRING").withColumn("bucket", bucket_column()).collect()
    )
    assert [row.bucket for row in rows] == [bucket_of(key) for key in keys]
    assert {row.bucket < OF_CALLERS for row in rows if not row.about.startswith("group ")} == {True}
    assert {row.bucket < OF_CALLERS for row in rows if row.about.startswith("group ")} == {False}


class TestChangedBuckets:
    """The buckets whose rows change with a new topic name or a new unread period, without a session."""

    def test_a_topic_name_changes_its_rows_and_committing_groups(self):
        known = {"id:x": "tea", "id:y": "milk"}
        commits = {("by-id", "id:x", 0), ("by-name", "tea", 1), ("other", "milk", 0)}
        ids = {("id:x", 7), ("id:y", 9)}
        was = CaptureSummary(names={"id:y": "milk"}, commits=commits, ids=ids)
        now = CaptureSummary(names=known, commits=commits, ids=ids)
        groups = {bucket_of(about_group(name)) for name in ("by-id", "by-name")}
        assert bucket_of(about_group("other")) not in {7, *groups}
        assert buckets_of_names(was, now) == buckets_of_names(now, was) == {7, *groups}
        assert buckets_of_names(now, now) == set()

    def test_an_unread_period_changes_its_group_or_all(self):
        summaries = [
            CaptureSummary(unread={Unread(1, end, "c", "b:1", group)}) for group, end in (("g", 2), ("g", 3), (None, 2))
        ]
        assert buckets_of_unread(summaries[0], summaries[0]) == set()
        assert buckets_of_unread(*summaries[:2]) == {bucket_of(about_group("g"))}
        assert buckets_of_unread(*summaries[1:]) == set(range(BUCKETS))

    def test_group_events_and_errors_refer_to_topic_ids(self, long):
        follower = TwsTester(Follower("c"), timeMode="ProcessingTime")
        rows = [row for key, some in rows_by_connection([long]).items() for row in follower.test(key, some)]
        expected: set[tuple[str, int]] = set()
        for row in rows:
            for values in unbundle(row.rows) if row.kind in ("events", "errors") else ():
                texts = repr(values)
                expected |= {(topic, bucket_of(row.about)) for topic in re.findall(r"id:[\w-]{22}", texts)}
        assert {one for row in rows if row.kind == "ids" for one in unbundle(row.rows)} == expected != set()

    def test_other_buckets_have_the_same_rows_without_the_name(self, long):
        follower = TwsTester(Follower("c"), timeMode="ProcessingTime")
        rows = [row for key, some in rows_by_connection([long]).items() for row in follower.test(key, some)]
        some = [Bundle(row.kind, row.about, row.rows) for row in rows]
        now = CaptureSummary.of(some)
        whole, changed = rows_by_bucket(some, now), 0
        assert len(now.names) > 3
        for topic in sorted(now.names):
            names = {known: name for known, name in now.names.items() if known != topic}
            was = replace(now, names=names)
            before = rows_by_bucket(some, was)
            differ = {bucket for bucket in whole if before[bucket] != whole[bucket]}
            assert differ <= buckets_of_names(was, now)
            changed += len(differ)
        assert changed > 2


def rows_by_bucket(some: list[Bundle], summary: CaptureSummary) -> dict[int, list[str]]:
    """Return the rows of groups and counts that the second stage makes from bundles, without Spark."""
    builder = table_builder.TableBuilder("c", summary.names, Clusters(summary.statements), frozenset(summary.unread))
    for_groups = bundles.batch([one for one in some if one.kind in bundles.FOR_GROUPS])
    knowledge = summary.names, summary.groups, {}, summary.by_producer, {}
    sent = [
        one
        for batch in group_inputs.send_to_groups(*knowledge, iter([for_groups]))
        for one in bundles.bundles_of(batch)
    ]
    left_out = {*bundles.FOR_GROUPS, *bundles.PER_CONNECTION, *bundles.SUMMARY_KINDS, *bundles.STREAM_ONLY}
    by_key: dict[str, Any] = {}
    for one in [*(one for one in some if one.kind not in left_out), *sent]:
        by_key.setdefault(one.about, {}).setdefault(one.kind, []).extend(unbundle(one.rows))
    found: dict[int, list[str]] = {bucket: [] for bucket in range(BUCKETS)}
    for about, rows in by_key.items():
        made = builder.rows(rows)
        found[bucket_of(about)] += sorted(repr((name, row)) for name, of_table in made.items() for row in of_table)
    return {bucket: sorted(some) for bucket, some in found.items()}


@pytest.mark.long
def test_packets_cut_by_a_snap_length_in_a_stream(spark, tmp_path):
    """Unread bytes of a connection that continues also affect groups of earlier files."""
    whole = tmp_path / "whole.pcap"
    whole.write_bytes(snapped(traces.COMMITTED[4], 200))
    paths = traces.cut(whole, tmp_path / "rotating", 2)
    place = tmp_path / "out"
    stream = Stream([str(tmp_path / "rotating")], Output(str(place)), "c", settle=0.0, files=1)
    assert stream.start(spark, once=True).awaitTermination(LIMIT)
    stream.finish(spark)
    result = parquet.read(place)
    assert result == traces.single(paths, "c")
    assert any(row["incomplete"] for row in result["rebalances"])
    assert stream.damaged == {str(path) for path in paths}


def rows_by_connection(paths: Any, files: Any = None) -> Any:
    results = {}
    for number, path in enumerate(paths):
        for split in segment_references.parts(str(path), 1 << 40):
            for batch in segment_references.references(segment_references.Part(number, split)):
                for row in batch.to_pylist():
                    results.setdefault(row["connection"], []).append(Row(**row))
    return results


def counted(rows: bool, *, provisional: Any) -> tuple[Any, ...]:
    """Return the kinds of rows, and the rows of the kinds that name frames."""
    results = [(row.kind, unbundle(row.rows)) for row in rows if row.provisional is provisional]
    return [kind for kind, _ in results], {
        (row["conn_id"], row["number"]) for kind, rows in results if kind == "frames" for row in rows
    }


class TestFollower:
    """The processor alone, called as Spark calls it, without a session."""

    def test_a_connection_over_two_batches(self, long, tmp_path):
        first, second = traces.cut(long, tmp_path / "r", 2)
        tester = TwsTester(Follower("c"), timeMode="ProcessingTime")
        results = []
        for path in (first, second):
            for key, rows in rows_by_connection([path]).items():
                results += tester.test(key, rows)
        expected = {(row["conn_id"], row["number"]) for row in traces.single([long], "c")["frames"]}
        _, final = counted(results, provisional=False)
        assert final <= expected
        assert final | counted(results, provisional=True)[1] >= expected

    def test_one_that_falls_silent_is_over(self, long):
        key, rows = max(rows_by_connection([long]).items(), key=lambda item: len(item[1]))
        tester = TwsTester(Follower("c", idle=1_000), timeMode="ProcessingTime")
        tester.test(key, rows[:-20])
        assert tester.peekValueState("following", key) is not None
        kinds, _ = counted(tester.setProcessingTime(IDLE), provisional=False)
        assert kinds.count("connections") == 1
        assert tester.peekValueState("following", key) is None


@pytest.mark.long
def test_a_transaction_that_ends_in_a_later_file(spark, tmp_path):
    """The rows of its group are computed again, although the end is all that the batch contains of the group."""
    (whole,) = [path for path in traces.COMMITTED if "txn" in path.name]
    every = traces.single([whole], "c")
    ends = [row["request_ts"] for row in every["frames"] if row["api_name"] == "EndTxn"]
    head, records = traces.content(whole)[: traces.HEAD], traces.records(whole)
    folder = tmp_path / "rotating"
    folder.mkdir()
    begin, paths = 0, []
    for number, ts in enumerate([*ends, None]):  # each file ends before an EndTxn
        later = [n for n, one in enumerate(records) if ts is not None and traces.time_us(one) >= ts]
        stop = later[0] if later else len(records)
        paths.append(folder / f"part-{number}.pcap")
        paths[-1].write_bytes(head + b"".join(records[begin:stop]))
        begin = stop
    place = tmp_path / "out"
    stream = Stream([str(folder)], Output(str(place)), "c", settle=0.0, files=1)
    assert stream.start(spark, once=True).awaitTermination(LIMIT)
    result = parquet.read(place)
    assert result["offset_commits"] == traces.single(paths, "c")["offset_commits"]
    assert {row["outcome"] for row in result["offset_commits"]} == {"committed", "aborted"}


@pytest.mark.parametrize(("number", "is_refused"), [(0, False), (1, True)])
def test_format_of_a_stream_does_not_change(tmp_path, number, is_refused):
    """Batch 0 is repeated if Spark has not committed it."""
    stream = Stream(["x.pcap"], Output(str(tmp_path)), "c")
    stream._write_file(stream._format_file, b"parquet")
    stream._save_summary(CaptureSummary(), Buckets(), number)
    stream._require_same_format()
    changed = Stream(["x.pcap"], Output(str(tmp_path), "json"), "c")
    with pytest.raises(StreamedError, match="continue with --format parquet") if is_refused else nullcontext():
        changed._require_same_format()


def test_a_file_that_may_still_grow_is_named_at_the_end(tmp_path, monkeypatch):
    """``--once`` right after the capture would end with empty tables, and without a message."""
    paths = traces.cut(traces.COMMITTED[0], tmp_path / "rotating", 2)
    work = tmp_path / "out" / "_stream" / "capture_id=c" / "checkpoint" / "offsets"
    ended: list[Stream] = []

    def run(stream: Stream, *_: Any, **__: Any) -> None:
        ended.append(stream)
        work.mkdir(parents=True, exist_ok=True)
        reader = stream_source.CaptureStream(list(stream.inputs), 1, stream.settle, 0)
        offset = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
        for number in (9, 10):
            (work / str(number)).write_text(f"v1\n{{}}\n{json.dumps(offset if number == 10 else {})}")

    for name, function in (("_start", None), ("session_on", None), ("run_stream", run)):
        monkeypatch.setattr(f"kwire.spark.command.{name}", function or (lambda *_: None))
    arguments = ["--input", str(tmp_path / "rotating"), "--output", str(tmp_path / "out"), "--capture-id", "c"]
    result = CliRunner().invoke(command, [*arguments, "--stream", "--once"])
    message = f"not read yet: {paths[1]}: a file is complete 60 s after its last change (--settle)\n"
    assert (result.exit_code, result.stderr) == (0, message)
    result = CliRunner().invoke(command, [*arguments, "--stream", "--once", "--settle", "0"])
    assert (result.exit_code, result.stderr) == (0, "")
    assert Stream(["kafka://h:1/t"], ended[0].output, "c").unread() == []
