"""The evidence of a group does not depend on how its rows are divided, and has few values."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import pytest
from group_histories import TOPICS, History, histories
from hypothesis import given, settings
from hypothesis import strategies as st

from kwire.analysis.clusters import Clusters
from kwire.analysis.events import GroupEvent
from kwire.analysis.findings import fold
from kwire.analysis.findings.detectors import partitions
from kwire.analysis.findings.evidence import SAMPLES, Evidence
from kwire.analysis.findings.observations import FetchSpan
from kwire.analysis.findings.views import FOREVER, GroupView
from kwire.analysis.groups import history
from kwire.analysis.groups.history import Ends
from kwire.analysis.topics import Watermark
from kwire.analysis.transactions import Ending, Transactions


def span(client_id: str, topic: str, partition: int, times: tuple[int, int]) -> FetchSpan:
    """Return a span. ``times``: begin and end in half seconds, in any order."""
    begin, end = sorted(times)
    return FetchSpan("c1", "b:1", client_id, "10.0.0.1", topic, partition, begin * 500_000, end * 500_000)


TIMES = st.tuples(st.integers(0, 40), st.integers(0, 40))
SPANS = st.builds(span, st.sampled_from("ab"), st.sampled_from(TOPICS), st.integers(0, 3), TIMES)


def view(told: History, spans: Sequence[FetchSpan] = ()) -> GroupView:
    events, marks, ended = told
    ends = Ends(marks)
    made = history.fold("x", "g", events, ends, None, Transactions(ended))
    (found,) = fold.views_of("g", made, ends, spans, {}, Clusters()).values()
    return found


@settings(deadline=None, max_examples=200, derandomize=True)
@given(histories(), st.lists(SPANS, max_size=6), st.lists(st.integers(0, 20_000_000), max_size=4))
def test_evidence_does_not_depend_on_the_cuts(told: History, spans: list[FetchSpan], cuts: list[int]) -> None:
    group = view(told, spans)
    divided = Evidence()
    for until in [*sorted(cuts), FOREVER]:
        divided = divided.after(group, until)
    assert divided == Evidence().after(group, FOREVER) == group.evidence


ABOUT: dict[str, Any] = {
    "group_id": "g",
    "protocol": "classic",
    "member_id": "m",
    "generation": 1,
    "error_code": 0,
    "conn_id": "c",
    "broker": "b:1",
}
OF_TEA: dict[str, Any] = {"topic": "tea", "partition": 0}


def test_lags_of_many_commits_are_sampled_evenly() -> None:
    count = SAMPLES * 10
    commits = [GroupEvent(ts=n, number=n, offset=0, event="commit", **ABOUT, **OF_TEA) for n in range(count)]
    marks = [Watermark(n, "c", "b:1", "tea", 0, n) for n in range(count)]
    lags = view((commits, marks, [])).evidence.lags["tea", 0]
    assert (lags.count, lags.first, lags.last) == (count, (0, 0), (count - 1, count - 1))
    assert lags.samples == [*range(0, count, 16)]  # 80: with every eighth one they would be 160


def test_intervals_of_heartbeats_are_rounded_to_three_digits() -> None:
    times = accumulate(range(1_000, 100_000_000, 10_700))
    events = [GroupEvent(ts=ts, number=n, event="heartbeat", **ABOUT) for n, ts in enumerate(times)]
    beats = view((events, [], [])).evidence.beats["m"]
    assert sum(beats.intervals.values()) == len(events) - 1 == 9_345
    assert len(beats.intervals) < 2_700  # of 9,345 different intervals
    assert set(beats.intervals) == {
        int(f"{ms}"[:3].ljust(len(f"{ms}"), "0"))
        for ms in [(later.ts - earlier.ts) // 1_000 for earlier, later in pairwise(events)]
    }


@pytest.mark.parametrize(
    ("offsets", "expected"),
    [
        ([5, 5, 5, 9, 9, 9], (2, 30, 5)),  # the first mark above offset 5 is at 2
        ([5, 9, 9, 9, 9, 9], (10, 50, 9)),
    ],
    ids=["the offset advances", "no more commits"],
)
def test_longest_time_at_an_offset(offsets: list[int], expected: tuple[int, int, int]) -> None:
    commits = [
        GroupEvent(ts=10 * n, number=n, offset=offset, event="commit", **ABOUT, **OF_TEA)
        for n, offset in enumerate(offsets)
    ]
    marks = [Watermark(ts, "c", "b:1", "tea", 0, offset) for ts, offset in ((1, 5), (2, 20), (50, 21))]
    group = view((commits, marks, []))
    (found,) = partitions.detect_stuck(group, {"stuck_ms": 0.02})
    assert (found.begin, found.end) == expected[:2]
    assert f"at offset {expected[2]} " in found.sentence


def test_a_transaction_that_commits_later_makes_evidence_invalid() -> None:
    producer = {"transactional_id": "t", "producer_id": 1, "producer_epoch": 0}
    commits = [GroupEvent(ts=5, number=1, offset=0, event="txn_commit", **ABOUT, **OF_TEA, **producer)]
    before = view((commits, [], []))
    evidence = before.earlier.after(before, 5)
    assert evidence.is_valid_for(before)
    for kind, is_valid in (("commit", False), ("abort", True)):
        ended = [Ending(7, "c", "b:1", "t", 1, 0, kind)]
        assert evidence.is_valid_for(view((commits, [], ended))) is is_valid
    assert Evidence(until=4).is_valid_for(view((commits, [], [Ending(7, "c", "b:1", "t", 1, 0, "commit")])))
