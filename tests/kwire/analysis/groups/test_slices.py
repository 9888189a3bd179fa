"""A group in slices has the rows of the whole group, in captured and in generated histories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from group_histories import CAPTURES, History, canonical, captured, histories
from hypothesis import given, settings
from hypothesis import strategies as st

from kwire.analysis.columns import Row
from kwire.analysis.events import GroupEvent
from kwire.analysis.findings import fold as findings
from kwire.analysis.findings.catalogue import DETECTORS
from kwire.analysis.groups import history, slices
from kwire.analysis.groups.history import Ends
from kwire.analysis.transactions import Transactions

SENSITIVE = {  # thresholds at which small histories have findings
    f"{detector.name}.{one.name}": 0.0 if one.name.endswith("_ms") or one.name == "share" else 1.0
    for detector in DETECTORS
    for one in detector.thresholds
}


def found(rows: Mapping[str, Sequence[Row]], ends: Ends, settings: Mapping[str, float]) -> list[Row]:
    return findings.of_group("x", "g", rows, ends, (), {}, history.Clusters(), settings)


def check(told: History, cuts: int, settings: Mapping[str, float]) -> None:
    events, marks, ended = told

    def fold(own: Sequence[GroupEvent]) -> dict[str, Sequence[Row]]:
        return history.fold("x", "g", own, Ends(marks), None, Transactions(ended))

    whole = fold(events)
    parts = [fold(part) for part in slices.slices(events, cuts)]
    merged = slices.merged(slices.own_rows(rows, first=not n) for n, rows in enumerate(parts))
    assert canonical(merged) == canonical(whole)
    light = slices.merged(slices.for_findings(rows, first=not n) for n, rows in enumerate(parts))
    assert found(light, Ends(marks), settings) == found(whole, Ends(marks), settings)


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name.partition(".pcap")[0])
def test_captured_groups_have_the_same_rows(path: Path) -> None:
    for told in captured(path).values():
        check(told, 3, {})
        check(told, 5, SENSITIVE)


@settings(deadline=None, max_examples=60)
@given(histories(), st.integers(1, 7))
def test_any_history_has_the_same_rows_however_it_is_cut(told: History, cuts: int) -> None:
    check(told, cuts, {})
    check(told, cuts, SENSITIVE)


def test_a_partition_is_in_one_slice_and_members_are_in_all() -> None:
    some = [
        GroupEvent(ts=n, group_id="g", protocol=None, event="commit", topic="tea", partition=n % 12, offset=n, number=n)
        for n in range(48)
    ]
    core = GroupEvent(ts=50, group_id="g", protocol="classic", event="heartbeat", member_id="m")
    parts = slices.slices([*some, core], 4)
    commits = [[event for event in part if event.topic is not None] for part in parts]
    own = [{event.partition for event in part} for part in commits]
    assert sum(map(len, own)) == 12
    assert set().union(*own) == set(range(12))
    assert all(core in part for part in parts)
    assert max(map(len, commits)) < len(some) / 2
