"""Captures as references to segments: they do not depend on how a file is cut into parts."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
from collections import Counter
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pytest
from captures import heartbeats
from effort import usual_and_long
from spark import traces
from tools.pcap import START, Talk, fragments, framed, packets, pcap, prefixed

pytest.importorskip("pyspark")

import kwire
from kwire.analysis.tables import TABLES
from kwire.capture.calls.conversation import Row as Segment
from kwire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from kwire.spark import first_stage, input_files, packing, segment_references, source, stream_source
from kwire.spark.following import AT_ONCE, ConnectionFollower, Payloads

SIZES = [65_536, 65_537, 100_003, 200_000]


def all_references(path: Any, size: int) -> list[Any]:
    results = [
        batch
        for split in segment_references.parts(str(path), size)
        for batch in segment_references.references(segment_references.Part(0, split))
    ]
    return [row for batch in results for row in batch.to_pylist()]


def references(path: Any, size: int) -> list[Any]:
    """Return the references without their numbers in a part, and without the rows that count skipped packets."""
    results = [row for row in all_references(path, size) if row["skipped"] is None]
    return [{name: value for name, value in row.items() if name != "number"} for row in results]


def skipped(path: Any, size: int) -> Counter:
    """Return the number of skipped packets by reason."""
    result = Counter()
    for row in all_references(path, size):
        if row["skipped"] is not None:
            result[row["skipped"]] += row["number"]
    return result


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return traces.long_capture(tmp_path_factory.mktemp("long"))


@pytest.mark.parametrize("size", SIZES)
def test_parts(long, size):
    assert len(segment_references.parts(str(long), size)) > 1
    assert references(long, size) == references(long, 1 << 40)
    assert skipped(long, size) == skipped(long, 1 << 40)
    assert skipped(long, size)["not_tcp"] > 1


def test_payload_of_a_gzipd_file_is_in_the_rows_or_in_a_file(long, tmp_path):
    packed = tmp_path / "long.pcap.gz"
    packed.write_bytes(gzip.compress(long.read_bytes()))
    plain, unpacked = references(long, 65_536), references(packed, 65_536)
    assert {row["payload"] for row in plain} == {None}
    assert [len(row["payload"]) for row in unpacked] == [row["captured"] for row in plain]
    assert [row["start"] for row in unpacked] == [row["start"] for row in plain]

    part = segment_references.Part(0, segment_references.parts(str(packed), 65_536)[0], str(tmp_path / "unpacked"))
    rows = [row for batch in segment_references.references(part) for row in batch.drop_columns(["number"]).to_pylist()]
    spooled = [row for row in rows if row["skipped"] is None]
    assert spooled == [{**row, "payload": None} for row in unpacked]
    payloads = Payloads([str(packed)], part.unpacked).of(0, {})
    read = [payloads[row["start"] : row["start"] + row["captured"]] for row in spooled]
    assert read == [row["payload"] for row in unpacked]
    payloads.close()


def test_damage_is_a_row(long, tmp_path):
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(long.read_bytes()[:-5])
    *rows, last = references(cut, 65_536)
    assert rows == [{**row, "path": str(cut)} for row in references(long, 65_536)[: len(rows)]]
    assert "ends inside a record" in last["problem"]


def test_files_that_are_not_captures(tmp_path):
    (tmp_path / "empty.pcap").touch()
    (tmp_path / "text.pcap").write_text("not a capture at all, for sure")
    for name in ("empty.pcap", "text.pcap"):
        (row,) = references(tmp_path / name, 65_536)
        assert row["problem"]


def test_the_path_of_a_file_is_not_a_pattern(long, tmp_path):
    """A shell expands ``*.pcap`` to both files."""
    paths = [str(tmp_path / name) for name in ("a1.pcap", "a[1].pcap")]
    for path in paths:
        os.link(long, path)
    assert sorted(input_files.files(paths)) == paths
    assert input_files.files([paths[1]]) == [paths[1]]
    assert input_files.files([str(tmp_path / "a[1-9].pcap")]) == [paths[0]]


def test_inputs_without_files(long, tmp_path):
    (tmp_path / "empty").mkdir()
    missing = [str(tmp_path / name) for name in ("empty", "none.pcap", "*.pcap")]
    inputs = [
        *missing,
        str(long),
        str(long.parent),
        f"{long.parent}/*",
        "s3://bucket/in",
        "kafka://localhost:9092/frames",
    ]
    assert input_files.without_files(inputs) == missing


def test_the_format(spark, long):
    source.register(spark)
    result = spark.read.format("kafka_pcap").option("splitSize", 65_536).load(str(long))
    assert result.where("skipped IS NULL").count() == len(references(long, 1 << 40))
    assert result.where("size > 0").select("path").distinct().collect()[0].path == str(long)


EMPTY = "the file is empty"


class TestStream:
    def stream(self, folder: Any, settle: float = 0.0, most: int = 0) -> Any:
        return stream_source.CaptureStream([str(folder)], 1 << 20, settle, most)

    def test_files_are_read_in_order_of_their_times(self, long, tmp_path):
        paths = traces.cut(long, tmp_path / "r", 3)
        paths[0].rename(tmp_path / "r" / "z-first.pcap")
        stream = self.stream(tmp_path / "r")
        end = stream.latestOffset(stream.initialOffset(), stream.getDefaultReadLimit())
        results = [part.split.path.rpartition("/")[2] for part in stream.partitions(stream.initialOffset(), end)]
        assert results == ["z-first.pcap", "rotated-1.pcap", "rotated-2.pcap"]
        assert stream.latestOffset(end, stream.getDefaultReadLimit()) == end
        assert json.loads(json.dumps(end)) == end

    def test_the_newest_file_waits_while_it_may_grow(self, long, tmp_path):
        traces.cut(long, tmp_path / "r", 3)
        stream = self.stream(tmp_path / "r", settle=3_600)
        end = stream.latestOffset(stream.initialOffset(), stream.getDefaultReadLimit())
        assert end["path"].endswith("rotated-1.pcap")

    def test_so_many_files_at_a_time(self, long, tmp_path):
        traces.cut(long, tmp_path / "r", 3)
        stream = self.stream(tmp_path / "r", most=1)
        end = stream.latestOffset(stream.initialOffset(), stream.getDefaultReadLimit())
        assert end["path"].endswith("rotated-0.pcap")

    def test_files_added_during_a_run_wait_for_the_next(self, long, tmp_path):
        _, second, _ = traces.cut(long, tmp_path / "r", 3)
        later = second.rename(tmp_path / "later")
        stream = self.stream(tmp_path / "r")
        stream.prepareForTriggerAvailableNow()
        later.rename(tmp_path / "r" / "rotated-3.pcap")
        end = stream.latestOffset(stream.initialOffset(), stream.getDefaultReadLimit())
        assert end["path"].endswith("rotated-2.pcap")

    def test_timers_run_once_after_each_silence(self, long, tmp_path):
        paths = traces.cut(long, tmp_path / "r", 2)
        later = paths[1].rename(tmp_path / "later")
        stream = stream_source.CaptureStream([str(tmp_path / "r")], 1 << 20, 0.0, 0, idle=0.0)
        offset = stream.initialOffset()
        seen = []
        for _ in range(4):
            offset = stream.latestOffset(offset, stream.getDefaultReadLimit())
            seen.append((offset["path"].rpartition("/")[2], offset["calls"]))
        later.rename(paths[1])
        for _ in range(3):
            offset = stream.latestOffset(offset, stream.getDefaultReadLimit())
            seen.append((offset["path"].rpartition("/")[2], offset["calls"]))
        first, second = ("rotated-0.pcap", 1), ("rotated-1.pcap", 2)
        assert seen == [("rotated-0.pcap", 0), first, first, first, ("rotated-1.pcap", 1), second, second]

    def test_a_file_that_is_gzipd_afterwards_is_not_read_again(self, long, tmp_path):
        paths = traces.cut(long, tmp_path / "r", 2)
        stream = self.stream(tmp_path / "r")
        start = stream.initialOffset()
        end = stream.latestOffset(start, stream.getDefaultReadLimit())
        packed = [path.with_suffix(".pcap.gz") for path in paths]
        for path, other in zip(paths, packed, strict=True):
            other.write_bytes(gzip.compress(path.read_bytes()))
        assert [part.split.path for part in stream.partitions(start, end)] == [str(path) for path in paths]
        for path in paths:
            path.unlink()
        assert stream.latestOffset(end, stream.getDefaultReadLimit()) == end
        assert [part.split.path for part in stream.partitions(start, end)] == [str(path) for path in packed]

    def test_a_file_that_is_being_compressed_is_read_once(self, long, tmp_path):
        """gzip has written nothing yet, and the next file has already begun."""
        first, second = traces.cut(long, tmp_path / "r", 2)
        packed = first.with_suffix(".pcap.gz")
        packed.touch()
        for path, changed in ((first, 1_000), (packed, 1_001), (second, 1_002)):
            os.utime(path, (changed, changed))
        stream = self.stream(tmp_path / "r")
        end, reported = self.reported(stream, stream.initialOffset())
        paths = [part.split.path for part in stream.partitions(stream.initialOffset(), end)]
        assert (paths, reported) == ([str(first), str(second)], [])

    @pytest.mark.parametrize("function", ["size_of", "changed_at", "first_time"])
    def test_a_file_deleted_while_files_are_listed_is_ignored(self, long, tmp_path, monkeypatch, function):
        """tcpdump deletes the file that it has compressed; of a ring, a script deletes old files."""
        first, second = traces.cut(long, tmp_path / "r", 2)
        (tmp_path / "r" / "link.pcap").symlink_to(tmp_path / "deleted.pcap")
        stream = stream_source.CaptureStream([str(tmp_path / "r" / "*.pcap")], 1 << 20, 0.0, 0)
        read = getattr(stream_source, function)

        def deleted(path: str) -> Any:
            if path == str(first):
                first.unlink(missing_ok=True)
            return read(path)

        monkeypatch.setattr(stream_source, function, deleted)
        end = stream.latestOffset(stream.initialOffset(), stream.getDefaultReadLimit())
        assert [one.split.path for one in stream.partitions(stream.initialOffset(), end)] == [str(second)]

    def reported(self, stream: Any, start: Any) -> tuple[Any, list[tuple[str, str]]]:
        """Return the next offset, and the names of the files that the batch before it reports."""
        end = stream.latestOffset(start, stream.getDefaultReadLimit())
        parts = stream.partitions(start, end)
        rows = [row for part in parts for batch in stream.read(part) for row in batch.to_pylist()]
        return end, [(row["path"].rpartition("/")[2], row["problem"]) for row in rows if row["problem"]]

    def test_a_file_that_arrives_late_is_reported_once(self, long, tmp_path):
        paths = traces.cut(long, tmp_path / "r", 3)
        late = paths[0].rename(tmp_path / "late.pcap")
        stream = self.stream(tmp_path / "r", most=1)
        offset, reported = self.reported(stream, stream.initialOffset())
        assert reported == []
        late.rename(paths[0])
        offset, reported = self.reported(stream, offset)
        assert (reported, offset["path"]) == ([("rotated-0.pcap", stream_source.LATE)], str(paths[2]))
        offset, reported = self.reported(stream, offset)
        assert reported == []
        assert stream.latestOffset(offset, stream.getDefaultReadLimit()) == offset
        assert self.reported(self.stream(tmp_path / "r"), offset) == (offset, []), "known after a restart"

    def test_a_file_that_grows_after_it_was_read_is_reported_once(self, long, tmp_path):
        """A quiet minute ends before the file does, or two captures write to one folder."""
        first, second = traces.cut(long, tmp_path / "r", 2)
        stream = self.stream(tmp_path / "r", most=1)
        offset, _ = self.reported(stream, stream.initialOffset())
        whole = first.read_bytes()
        first.write_bytes(whole + whole[traces.HEAD :])
        offset, reported = self.reported(stream, offset)
        assert (reported, offset["path"]) == ([(first.name, stream_source.GROWN)], str(second))
        first.write_bytes(whole * 3)
        assert self.reported(stream, offset) == (offset, [])

    def test_a_file_that_grows_between_two_runs_is_reported_once(self, long, tmp_path):
        (path,) = traces.cut(long, tmp_path / "r", 1)
        start = self.stream(tmp_path / "r").initialOffset()
        offset, _ = self.reported(self.stream(tmp_path / "r"), start)
        assert self.reported(self.stream(tmp_path / "r"), offset) == (offset, [])
        size = path.stat().st_size
        path.write_bytes(path.read_bytes() + bytes(16))
        repeated = self.stream(tmp_path / "r")
        repeated.partitions(start, offset)  # a batch that Spark repeats reads the file up to its present end
        assert repeated.latestOffset(offset, repeated.getDefaultReadLimit()) == offset
        stream = self.stream(tmp_path / "r")
        after = stream.latestOffset(offset, stream.getDefaultReadLimit())
        assert [(one.path, one.position) for one in stream.partitions(offset, after)] == [(str(path), size)]
        path.write_bytes(path.read_bytes() + bytes(16))
        assert self.reported(self.stream(tmp_path / "r"), after) == (after, [])

    def test_an_empty_file_is_reported_when_it_cannot_grow(self, long, tmp_path):
        (first,) = traces.cut(long, tmp_path / "r", 1)
        os.utime(first, (1_000, 1_000))
        empty = tmp_path / "r" / "empty.pcap"
        empty.touch()
        stream = self.stream(tmp_path / "r")
        offset, reported = self.reported(stream, stream.initialOffset())
        assert reported == [], "it is the newest file"
        os.utime(empty, (999, 999))
        offset, reported = self.reported(stream, offset)
        assert reported == [("empty.pcap", EMPTY)]
        assert self.reported(stream, offset)[1] == []

    def test_a_minute_without_packets_is_no_damage(self, long, tmp_path):
        """tcpdump then writes a file with a header only. A file that is shorter than a header is damaged."""
        (first,) = traces.cut(long, tmp_path / "r", 1)
        stream = self.stream(tmp_path / "r")
        offset, reported = self.reported(stream, stream.initialOffset())
        for name, size in (("quiet.pcap", traces.HEAD), ("cut.pcap", 10)):
            (tmp_path / "r" / name).write_bytes(first.read_bytes()[:size])
            os.utime(tmp_path / "r" / name, (1_000, 1_000))
        offset, reported = self.reported(stream, offset)
        assert [name for name, _ in reported] == ["cut.pcap"]
        assert offset["path"] == str(first)
        assert self.reported(stream, offset) == (offset, [])

    def test_an_empty_file_deleted_before_it_is_read_is_reported(self, long, tmp_path):
        """Spark repeats the batch after a restart: the stream must not fail each time."""
        traces.cut(long, tmp_path / "r", 1)
        empty = tmp_path / "r" / "empty.pcap"
        empty.touch()
        os.utime(empty, (999, 999))
        stream = self.stream(tmp_path / "r")
        end = stream.latestOffset(stream.initialOffset(), stream.getDefaultReadLimit())
        empty.unlink()
        parts = self.stream(tmp_path / "r").partitions(stream.initialOffset(), end)
        assert [part.reason for part in parts if isinstance(part, stream_source.Unread)] == [stream_source.DELETED]

    def test_the_newest_file_may_be_empty_at_the_end(self, tmp_path):
        (tmp_path / "empty.pcap").touch()
        stream = self.stream(tmp_path)
        stream.prepareForTriggerAvailableNow()
        assert self.reported(stream, stream.initialOffset())[1] == [("empty.pcap", EMPTY)]

    def test_an_empty_folder(self, tmp_path):
        stream = self.stream(tmp_path)
        assert stream.latestOffset(stream.initialOffset(), stream.getDefaultReadLimit()) == stream.initialOffset()


def interleaved(path: Any, connections: int = 100, rounds: int = 60, *, mss: int = 1448) -> Any:
    """Return connections that last for the whole file, with small and large frames in random order."""
    chance = random.Random(7)
    every = []
    for number in range(connections):
        talk = Talk(client=(f"10.1.0.{number + 1}", 40_000 + number), mss=mss, gap_us=10)
        every += talk.open()
        for beat in range(1, rounds + 1):
            talk.time_us = START + 10_000 * beat + chance.randrange(9_000)
            every += heartbeats(talk, 1, first=beat)
            if chance.random() < 0.3:
                metadata = "x" * chance.choice([200, 3_000, 40_000])
                request = OffsetCommitRequest(group_id=metadata[:20_000], topics=[])
                every += talk.say(True, prefixed(kwire.encode_request(request, 8, correlation_id=10_000 + beat)))
                answer = OffsetCommitResponse()
                every += talk.say(False, prefixed(kwire.encode_response(answer, 8, correlation_id=10_000 + beat)))
        every += talk.close()
    every.sort(key=lambda segment: segment.time_us)
    path.write_bytes(pcap(packets(every)))
    return path


def ordered(path: Any, count: int = 10_000, *, packed: bool = False, **how: Any) -> Any:
    """Return references in the order in which Spark passes them to the task that follows connections."""
    split = segment_references.parts(str(path), 1 << 40)[0]
    table = pa.Table.from_batches(
        segment_references.references(segment_references.Part(0, split, **how), packed=packed)
    )
    keys = [(name, "ascending") for name in ("connection", *segment_references.ORDER)]
    return table.sort_by(keys).combine_chunks().to_batches(max_chunksize=count)


class Counting(io.FileIO):
    """A file that records how many bytes are read, and the size of the largest read."""

    read_bytes = largest = 0

    def read(self, size: int = -1) -> Any:
        result = super().read(size)
        Counting.read_bytes += len(result)
        Counting.largest = max(Counting.largest, len(result))
        return result


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> Any:
    def opened(path: Any, *, exact: bool = False) -> Counting:
        assert exact
        return Counting(path)

    monkeypatch.setattr(Counting, "read_bytes", 0)
    monkeypatch.setattr(Counting, "largest", 0)
    monkeypatch.setattr("kwire.spark.following.open_at", opened)
    return Counting


def followed(path: Any, **how: Any) -> Any:
    results = []
    for rows in first_stage.followed([str(path)], "c", iter(ordered(path, **how))):
        results += rows.pop("frames", [])
        rows.clear()
    return TABLES["frames"].sorted(results)


INTERLEAVED = usual_and_long(
    [(57, 60, 1448), (2, 500, 30), (1, 500, 1448)], [(100, 40, 1448), (2, 500, 1448), (100, 30, 60_000)]
)


@pytest.mark.parametrize("packed", [False, True], ids=["rows of a segment", "packed rows"])
@pytest.mark.parametrize(("connections", "rounds", "mss"), INTERLEAVED)
def test_interleaved_connections_read_a_file_once(tmp_path, counting, connections, rounds, mss, packed):
    """At most 1.2 times the bytes of the file are read, in pieces of bounded size; the frames are the same."""
    path = interleaved(tmp_path / "i.pcap", connections, rounds, mss=mss)
    result = followed(path, packed=packed)
    assert result == traces.single([path], "c")["frames"]
    assert len({row["conn_id"] for row in result}) == connections
    assert 0 < counting.read_bytes <= 1.2 * path.stat().st_size
    assert counting.largest <= AT_ONCE


@pytest.mark.parametrize("packed", [False, True], ids=["rows of a segment", "packed rows"])
def test_a_real_capture_is_read_once(long, counting, packed):
    followed(long, packed=packed)
    assert 0 < counting.read_bytes <= 1.2 * long.stat().st_size


@pytest.mark.parametrize("count", [10_000, 3], ids=["one batch", "batches of 3 rows"])
def test_packed_rows_are_the_same_segments_in_fewer_rows(long, count):
    """Each row has up to 64 segments of one connection; the order of the rows is the order of the segments."""
    single, packed = ordered(long), ordered(long, count, packed=True)
    fields = ("connection", "file", *Segment._fields)
    expected = [
        tuple(row[name] for name in fields) for batch in single for row in batch.to_pylist() if row["connection"]
    ]
    found = []
    for batch in packed:
        for key, rows in filter(itemgetter(0), first_stage.runs(batch)):  # without rows about the file
            files, columns = packing.unpack(rows)
            found += list(zip([key] * len(files), files, *columns.values(), strict=True))
    assert found == expected
    assert all(batch.column(name).null_count == len(batch) for batch in packed for name in ("start", "payload"))
    sizes = [len(one) for batch in packed for one in batch.column("packed").to_pylist() if one is not None]
    assert max(sizes) == 64 * packing.LAYOUT.itemsize
    assert sum(map(len, packed)) < len(expected) / 8


def test_rows_with_payload_are_not_packed(tmp_path):
    """The payload of a fragment that was captured long before the first one is in its row, between packed rows."""
    talk, other = Talk(), Talk(client=("10.0.0.3", 50_000), mss=60_000)
    segments = [*talk.open(), *heartbeats(talk, 60)]
    late, first = fragments(segments[60], 40)[::-1][0], fragments(segments[60], 40)[:-1]
    between = [segment for _ in range(60) for segment in other.say(True, bytes(60_000))]
    every = [(0, framed(late)), *((0, data) for _, data, _ in packets(between)), *((0, framed(one)) for one in first)]
    around = list(packets(segments))
    every = [*((at, data) for at, data, _ in around[:60]), *every, *((at, data) for at, data, _ in around[61:])]
    path = tmp_path / "f.pcap"
    path.write_bytes(pcap([(START, data, len(data)) for _, data in every]))
    (rows,) = ordered(path, packed=True)
    assert set(packing.is_packed(rows)) == {True, False}
    assert 0 < rows.column("payload").null_count < len(rows)
    assert followed(path, packed=True) == followed(path) == traces.single([path], "c")["frames"]


def test_ranges_are_planned_without_opening_files(long, tmp_path, monkeypatch):
    """A task finds its part in a range; small files share a task, and a file without guesses is one range."""
    text = tmp_path / "text.pcap"
    text.write_bytes(b"not a capture")
    paths = [str(path) for path in (long, *traces.COMMITTED, text)]

    def planned(guess: Any) -> Any:
        reader = source.CaptureReader(paths, 65_536, guess=guess)
        with monkeypatch.context() as patch:
            for name in ("CaptureFile", "Guesses", "parts"):
                patch.setattr(source, name, None)
            return reader, reader.partitions()

    reader, partitions = planned(paths)
    assert len(partitions) > 2 + long.stat().st_size // 65_536
    rows = [row for one in partitions for batch in reader.read(one) for row in batch.to_pylist()]
    whole, together = planned([])
    assert sum(len(one.ranges) for one in together) == len(paths)
    expected = [row for one in together for batch in whole.read(one) for row in batch.to_pylist()]

    def kept(some: Any) -> Any:
        return sorted(repr(row | {"number": 0}) for row in some if row["skipped"] is None)

    assert kept(rows) == kept(expected)
    small, many = source.CaptureReader(paths[1:] * 9, 4 << 20, guess=paths), len(paths[1:] * 9)
    assert len(small.partitions()) < many / 8


def test_payload_of_another_machine_travels_with_its_reference(tmp_path, counting):
    """There each read is a request: bytes that were read to find the segments are not requested again."""
    path = interleaved(tmp_path / "i.pcap", 20, 10)
    assert followed(path, carried=True) == traces.single([path], "c")["frames"]
    assert counting.read_bytes == 0
    (part,) = source.CaptureReader([path.as_uri()], 1 << 40).partitions()
    assert part.carried


def test_segments_of_a_run_are_followed_by_one_call(long, monkeypatch):
    """This includes connections that alternate in the file: the native engine needs several segments in one call."""
    paths = [str(long)]
    reader = source.CaptureReader(paths, 1 << 30, None, (), packed=True)
    table = pa.Table.from_batches(batch for part in reader.partitions() for batch in reader.read(part))
    batches = table.sort_by([(name, "ascending") for name in ("connection", *segment_references.ORDER)]).to_batches()
    calls: list[int] = []
    follow = ConnectionFollower.segments

    def counting(self: ConnectionFollower, segments: Any, *more: Any) -> None:
        calls.append(len(segments))
        follow(self, segments, *more)

    monkeypatch.setattr(ConnectionFollower, "segments", counting)
    for rows in first_stage.followed(paths, "c", iter(batches)):
        rows.clear()
    runs = sum(1 for batch in batches for key, _ in first_stage.runs(batch) if key)
    assert len(calls) == runs < sum(calls) / 10
