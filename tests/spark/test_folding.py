"""The calls of a connection, cut into slices: the rows are those of the whole connection, wherever it is cut."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spark import traces

pytest.importorskip("pyspark")

from kwire.analysis import unread
from kwire.capture import Call, Connection, read
from kwire.capture.calls.bodies import BodyReader, is_undecoded
from kwire.messages.end_txn import EndTxnRequest, EndTxnResponse
from kwire.messages.fetch import FetchRequest, FetchResponse
from kwire.messages.produce import ProduceRequest, ProduceResponse
from kwire.spark import bundles, connection_slices, first_stage, following, plain, segment_references
from kwire.spark.bundles import Bundle, Rows, unbundle
from kwire.spark.capture_summary import CaptureSummary
from kwire.spark.folding import CallFold, Slicer, call_of

SUMS = {"waits", "tallies"}


def canonical(rows: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """Return the rows in order. Rows that their consumers add up or deduplicate are added up here."""
    waits = Counter((*about, us) for *about, some in rows.get("waits", ()) for us in some)
    tallies: dict[Any, Any] = {}
    for one in rows.get("tallies", ()):
        total = tallies.setdefault((one.conn_id, one.window, one.api_key), [0, 0, 2**62, 0, Counter()])
        total[0], total[1] = total[0] + one.calls, total[1] + one.throttle_ms
        total[2], total[3] = min(total[2], one.first_ts), max(total[3], one.last_ts)
        total[4] += Counter({code: count for code, (count, *_) in one.errors.items()})
    statements: dict[Any, int] = {}
    for one in rows.get("statements", ()):
        statements[one.content] = min(statements.get(one.content, one.ts), one.ts)
    once = {name: sorted(set(map(repr, rows.get(name, ())))) for name in ("names", "unread")}
    others = {
        name: sorted(map(repr, some)) for name, some in rows.items() if some and name not in SUMS | {"statements"}
    }
    return others | once | {"waits": waits, "tallies": tallies, "statements": statements}


def folded(calls: Sequence[Call], cuts: Sequence[int], merges: Sequence[int], connection: Connection) -> Any:
    """Return the rows of calls that are cut at these places, and whose folds are merged in this order."""
    rows: Rows = defaultdict(list)
    places = [0, *sorted(cut % (len(calls) + 1) for cut in cuts), len(calls)]
    folds = []
    for begin, end in pairwise(places):
        folds.append(CallFold("c", is_first=not folds))
        for call in calls[begin:end]:
            folds[-1].add(call, rows)
        folds[-1].drain(rows)
    for which in merges:
        place = which % (len(folds) - 1)
        earlier, later = (plain.loads(plain.dumps(one)) for one in folds[place : place + 2])
        earlier.merge(later, rows)
        folds[place : place + 2] = [earlier]
    (whole,) = folds
    whole.finish(connection, rows)
    return canonical(rows)


@st.composite
def cuttings(draw: Any) -> tuple[list[int], list[int]]:
    cuts = draw(st.lists(st.integers(0, 10_000), min_size=1, max_size=4))
    return cuts, draw(st.lists(st.integers(0, 10_000), min_size=len(cuts), max_size=len(cuts)))


PLACES = st.tuples(st.sampled_from(("tea", "milk")), st.integers(0, 1))


def fetch(draw: Any) -> tuple[int, Any, Any]:
    """Return a Fetch request of a session: full, incremental, or with partitions that leave the session."""
    topic, forgotten = FetchRequest.Topic, FetchRequest.ForgottenTopic
    named, gone = (draw(st.lists(PLACES, max_size=3, unique=True)) for _ in range(2))
    request = FetchRequest(
        replica_id=draw(st.sampled_from((-1, -1, -1, 2))),
        session_epoch=draw(st.sampled_from((0, 1, 2, 2, 2))),
        topics=[topic(topic=name, partitions=[topic.Partition(partition=number)]) for name, number in named],
        forgotten_topics_data=[forgotten(topic=name, partitions=[number]) for name, number in gone],
    )
    return 1, request, FetchResponse()


@st.composite
def invented(draw: Any) -> list[Call]:
    calls, now = [], 0
    for number in range(draw(st.integers(1, 25))):
        now += draw(st.sampled_from((0, 100_000, 240_000, 400_000, 1_500_000)))
        kind = draw(st.sampled_from(("fetch", "fetch", "work", "work", "end", "lost")))
        call = Call(connection="x", client="h:1", broker="b:1", number=number, client_id=draw(st.sampled_from("ab")))
        call.api_version, call.request_us = 11, now + draw(st.sampled_from((0, -300_000)))
        call.response_us = draw(st.sampled_from((None, now + 1_000, now + 500_000)))
        name = draw(st.sampled_from(("t", "u")))
        if kind == "fetch":
            call.api_key, call.request, call.response = fetch(draw)
        elif kind == "work":
            call.api_key, call.api_version, call.request = 0, 9, ProduceRequest(transactional_id=name)
            call.response = ProduceResponse()
        elif kind == "end":
            call.api_key, call.api_version, call.request = 26, 3, EndTxnRequest(transactional_id=name, committed=True)
            call.response = EndTxnResponse(error_code=draw(st.sampled_from((0, 0, 47, 51))))
        else:
            call.api_key, call.reason, call.group_id = 8, "incomplete", draw(st.sampled_from((None, "g", "h")))
        if call.response_us is None:
            call.response = None
        calls.append(call)
    return calls


def ended() -> Connection:
    return Connection(id="x", client="h:1", broker="b:1", first_us=0, last_us=60_000_000, lost=[(3_000_000, 4_000_000)])


@settings(deadline=None, max_examples=100)
@given(invented(), cuttings(), st.sampled_from((2, 1_000)))
def test_invented_calls_have_the_same_rows_cut_anywhere(calls, cutting, most):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unread, "MOST", most)
        whole = folded(calls, [], [], ended())
        assert folded(calls, *cutting, ended()) == whole
        every = range(1, len(calls))
        assert folded(calls, every, [0 for _ in every], ended()) == whole  # each call is a slice: merged from the first
        assert folded(calls, every, [place - 1 for place in every[::-1]], ended()) == whole  # and from the last


def conversations(path: Path) -> Iterator[tuple[Connection, list[Call]]]:
    items = list(read([path]))
    for connection in (item for item in items if isinstance(item, Connection)):
        yield connection, [item for item in items if isinstance(item, Call) and item.connection == connection.id]


@pytest.mark.parametrize("path", traces.COMMITTED, ids=lambda path: path.name.partition(".pcap")[0])
@settings(deadline=None, max_examples=3)
@given(cutting=cuttings())
def test_captured_calls_have_the_same_rows_cut_anywhere(path, cutting):
    for connection, calls in conversations(path):
        assert folded(calls, *cutting, connection) == folded(calls, [], [], connection)


def extracted(paths: Sequence[Path], folder: Path, slice_calls: int) -> tuple[list[Bundle], int]:
    """Return the bundles of the first stage without Spark, and the number of slices."""
    parts = [
        segment_references.Part(n, split)
        for n, path in enumerate(paths)
        for split in segment_references.parts(str(path), 1 << 40)
    ]
    rows = [row for part in parts for batch in segment_references.references(part) for row in batch.to_pylist()]
    rows.sort(key=lambda row: (row["connection"], *(row[name] for name in segment_references.ORDER)))
    sizes = (rows[n : n + 500] for n in range(0, len(rows), 500))
    batches = (pa.RecordBatch.from_pylist(some, schema=segment_references.REFERENCES) for some in sizes)
    convert = first_stage._connection_bundles
    made = convert(
        [str(path) for path in paths],
        "c",
        str(folder),
        following.ConnectionFollower,
        1 << 20,
        slice_calls,
        None,
        batches,
    )
    some = [one for batch in made for one in bundles.bundles_of(batch)]
    sliced = CaptureSummary.of(some).sliced
    calls = sorted((one for one in some if one.kind == "calls"), key=lambda one: one.about)
    decoded = connection_slices._decode_slices(
        "c", str(folder), 1 << 20, iter([bundles.batch(calls[::-1])] if calls else [])
    )
    some += [one for batch in decoded for one in bundles.bundles_of(batch)]
    folds = sorted((one for one in some if one.kind == "folds"), key=lambda one: one.about)
    merged = connection_slices._merge_folds(1 << 20, iter([bundles.batch(folds)] if folds else []))
    some += [one for batch in merged for one in bundles.bundles_of(batch)]
    return [one for one in some if one.kind not in bundles.OF_SLICES], sliced


def rows_of(some: Sequence[Bundle]) -> Any:
    rows: Rows = defaultdict(list)
    counts = {name: bundles.Counts(name) for name in bundles.COUNTED}
    for one in some:
        if one.kind in counts:
            counts[one.kind].add(unbundle(one.rows))
        elif one.kind not in ("written", "size", "large", "slices"):
            rows[one.kind] += unbundle(one.rows)
    for name, count in counts.items():
        rows[name] = count.drain()
    for name in ("names", "commits", "producers"):
        rows[name] = sorted(set(rows[name]))
    return canonical(rows)


@pytest.mark.parametrize("slice_calls", [1, 7])
def test_undecoded_calls_have_the_rows_of_decoded_ones(tmp_path, slice_calls):
    """The captures have lost packets, packets out of order, and damage; the table of frames is compared too."""
    paths = [traces.long_capture(tmp_path, every_nth=3), traces.strange(tmp_path)]
    whole, _ = extracted(paths, tmp_path / "whole", 0)
    some, sliced = extracted(paths, tmp_path / "some", slice_calls)
    assert sliced > 10
    assert rows_of(some) == rows_of(whole)
    frames = [sorted(map(repr, _frames(tmp_path / name))) for name in ("some", "whole")]
    assert frames[0] == frames[1]


def _frames(folder: Path) -> list[Any]:
    from pyarrow import parquet

    return [row for path in folder.rglob("part-*.parquet") for row in parquet.read_table(path).to_pylist()]


def test_a_slice_ends_after_its_calls_or_bytes():
    def call(size: int) -> Call:
        return Call(connection="x", client="h:1", broker="b:1", number=1, request_size=size)

    slicer = Slicer(2)
    assert [slicer.row(call(1))[1:3] for _ in range(5)] == [(1, 1), (1, 2), (2, 3), (2, 4), (3, 5)]
    large = Slicer(1_000)
    assert [large.row(call(9 << 20))[1] for _ in range(5)] == [1, 1, 2, 2, 3]


def test_a_call_that_is_decoded_already_is_left_alone():
    call = Call(
        connection="x", client="h:1", broker="b:1", number=1, api_key=26, api_version=3, request=EndTxnRequest()
    )
    values = Slicer(1).row(call)[3]
    reader = BodyReader(ended(), None, False, True)
    assert call_of(values, reader) == call
    assert not is_undecoded(call.request)
