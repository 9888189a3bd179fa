"""A history without the routine events that later events do not need has the rows of the whole history."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from group_histories import CAPTURES, History, canonical, captured, histories
from hypothesis import given, settings
from hypothesis import strategies as st

from kwire.analysis.columns import Row
from kwire.analysis.events import GroupEvent
from kwire.analysis.groups import history
from kwire.analysis.groups.history import Ends
from kwire.analysis.groups.thinning import Pauses, is_pause, settle, thin
from kwire.analysis.transactions import Transactions


def in_batches(told: History, cuts: Sequence[int], margin: int) -> tuple[int, int]:
    """Compare the rows after each batch with those of all its events. Return the events at the end, and those kept.

    ``margin``: microseconds before the end of a batch in which no event is removed."""
    events, marks, ended = told
    ordered = sorted(events, key=lambda event: event.key)

    def fold(own: Sequence[GroupEvent], pauses: Pauses) -> dict[str, Sequence[Row]]:
        return history.fold("x", "g", own, Ends(marks), None, Transactions(ended), (), pauses)

    kept: list[GroupEvent] = []
    pauses: Pauses = {}
    final: dict[str, list[Row]] = {name: [] for name in history.FILLED}
    begin = 0
    for end in [*sorted(cut % (len(ordered) + 1) for cut in cuts), len(ordered)]:
        kept += ordered[begin:end]
        begin = end
        if not kept:
            continue
        later = ordered[end].ts if end < len(ordered) else kept[-1].ts
        done = settle(fold, kept, min(kept[-1].ts - margin, later - 1), pauses)
        kept = [event for event, needed in zip(kept, done.kept, strict=True) if needed]
        pauses = done.pauses
        for name, rows in done.final.items():
            final[name] += rows
        whole = fold(ordered[:end], {})
        assert canonical({name: [*final[name], *done.current[name]] for name in final}) == canonical(whole)
    return len(ordered), len(kept)


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name.partition(".pcap")[0])
def test_captured_groups_have_the_same_rows(path: Path) -> None:
    for told in captured(path).values():
        in_batches(told, [len(told[0]) // 3, len(told[0]) * 2 // 3], 0)
        in_batches(told, [len(told[0]) // 2], 1_000_000)


@settings(deadline=None, max_examples=100, derandomize=True)
@given(histories(), st.lists(st.integers(0, 100), max_size=3))
def test_any_history_has_the_same_rows_in_batches(told: History, cuts: list[int]) -> None:
    """No event is removed within 6 s of the end of a batch: session timeouts are 2 s."""
    in_batches(told, cuts, 6_000_000)


def heartbeats(count: int, *, every_us: int) -> list[GroupEvent]:
    return [
        GroupEvent(
            ts=number * every_us,
            group_id="g",
            protocol="classic",
            event="heartbeat",
            member_id="m",
            generation=1,
            error_code=0,
            number=number,
        )
        for number in range(count)
    ]


def test_first_and_last_heartbeat_before_a_time_are_kept() -> None:
    kept, pauses = thin(heartbeats(10, every_us=1_000), 7_000, {})
    assert [number for number, needed in enumerate(kept) if needed] == [0, 7, 8, 9]
    assert pauses == {"m": [(0, 7_000)]}
    assert is_pause(pauses, "m", 0, 7_000)
    assert not is_pause(pauses, "m", 7_000, 8_000)


def test_pauses_of_two_batches_are_one() -> None:
    some = heartbeats(10, every_us=1_000)
    kept, pauses = thin(some, 5_000, {})
    kept, pauses = thin([event for event, needed in zip(some, kept, strict=True) if needed], 8_000, pauses)
    assert pauses == {"m": [(0, 8_000)]}
    assert sum(kept) == 3


def test_heartbeats_beside_an_error_are_kept() -> None:
    some = heartbeats(9, every_us=1_000)
    some[4].event, some[4].error_code = "heartbeat_error", 27
    kept, _ = thin(some, 8_000, {})
    assert [number for number, needed in enumerate(kept) if needed] == [0, 3, 4, 5, 8]


def share_event(name: str, ts: int, **more: Any) -> GroupEvent:
    return GroupEvent(ts=ts, group_id="g", event=name, broker="b:1", conn_id="c", **more)


def test_the_only_event_with_a_protocol_is_kept() -> None:
    """Later events without a protocol are interpreted with the protocol of this event."""
    some = [
        share_event(
            "accepted", 4_000_000, protocol="consumer", member_id="m1", topic="milk", partition=0, error_code=0
        ),
        share_event("join_done", 5_500_000, protocol=None, member_id="m3", error_code=25),
        share_event("join_error", 12_000_000, protocol=None, member_id="m1", error_code=0),
        share_event("commit_error", 17_000_000, protocol=None, member_id="m3", topic="tea", partition=2, offset=4),
    ]
    assert in_batches((some, [], []), [3], 6_000_000) == (4, 4)


def test_a_member_that_only_acquires_records_is_not_silent() -> None:
    some = [
        share_event("owned", 500_000, protocol="consumer", member_id="m2", generation=4, partitions=["milk-0"]),
        share_event("gaps", 10_500_000, protocol=None, member_id="m2", topic="milk", partition=2, error_code=0),
        share_event("member_id_given", 16_000_000, protocol="share", member_id="m2", generation=2),
        share_event("leave", 17_000_000, protocol=None, member_id="m3", generation=0),
        share_event("join_done", 19_500_000, protocol="consumer", member_id="m3", generation=2),
    ]
    assert in_batches((some, [], []), [4], 6_000_000) == (5, 5)


def acquisitions(count: int) -> list[GroupEvent]:
    about = {"protocol": "share", "member_id": "m", "generation": 1, "topic": "tea", "partition": 0, "error_code": 0}
    found = [share_event("acquired", number * 3_000_000, number=number, **about) for number in range(count)]
    return [share_event("join_sent", 0, protocol="share", member_id="m", generation=0, number=-1), *found]


def test_a_long_stream_of_share_records_keeps_few_events() -> None:
    assert in_batches((acquisitions(2_000), [], []), range(100, 2_000, 100), 360_000_000) == (2_001, 124)


def test_a_long_stream_of_heartbeats_keeps_few_events() -> None:
    told = heartbeats(2_000, every_us=3_000_000), [], []
    assert in_batches(told, range(100, 2_000, 100), 360_000_000) == (2_000, 122)
