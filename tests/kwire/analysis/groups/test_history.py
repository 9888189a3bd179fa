from __future__ import annotations

import random

import pytest
from tools.handmade_calls import GROUP, two_members

from kwire.analysis.clusters import Clusters, ClusterStatement
from kwire.analysis.events import GroupEvent
from kwire.analysis.extract import events_of
from kwire.analysis.groups.history import FILLED, Ends, by_cluster, fold
from kwire.analysis.topics import Watermark


def test_order_of_events_does_not_matter() -> None:
    events = [event for call in two_members().calls for event in events_of(call)]
    mixed = list(events)
    random.Random(1).shuffle(mixed)
    expected = fold("x", GROUP, events, Ends([]))
    assert tuple(expected) == FILLED
    assert fold("x", GROUP, mixed, Ends([])) == expected


def test_lag() -> None:
    log = two_members()
    log.commit("a", 750, 3, 0, 5)
    (event,) = events_of(log.calls[-1])
    marks = [Watermark(event.ts - 2000, "c", "b:1", "id:x", 0, 8), Watermark(event.ts + 1, "c", "b:1", "tea", 0, 99)]
    (row,) = fold("x", GROUP, [event], Ends(marks, {"id:x": "tea"}))["offset_commits"]
    assert (row["offset"], row["lag"], row["lag_age_ms"], row["error_code"]) == (5, 3, 2.0, 0)


def test_commit_went_back() -> None:
    log = two_members()
    log.commit("a", 750, 3, 0, 5)
    log.commit("a", 760, 3, 0, 4)
    assert [row["kind"] for row in log.tables()["violations"]] == ["commit_went_back"]


@pytest.mark.parametrize("ids", [(None, None, None, None), (5, 5, 5, 6)])
def test_coordinator_moved(ids: tuple[int | None, ...]) -> None:
    """Without broker ids, another address is another coordinator; with them, another listener of a broker is not."""
    places = ("a:1", "a:1", "a:1" if ids[2] is None else "a:2", "b:1")
    results = [
        GroupEvent(ts=ts, group_id="g", protocol=None, event="coordinator_found", leader=where, node_id=node)
        for ts, (where, node) in enumerate(zip(places, ids, strict=True))
    ]
    rows = fold("x", "g", results, Ends([]))["group_events"]
    moves = [(row["ts"], row["node_id"], row["reason"]) for row in rows if row["inferred"]]
    assert moves == [(3, ids[3], f"it was {places[2]}")]


def test_group_without_anything() -> None:
    assert fold("x", "g", [], Ends([])) == {name: [] for name in FILLED}


X, Y, Z = "10.0.0.1:9092", "10.0.0.2:9092", "10.0.0.3:9092"
TEA, MILK = ClusterStatement(1, "1", X, "tea", ()), ClusterStatement(1, "2", Z, "milk", ())


def heard(broker: str, member: str | None, client: str = "c", ts: int = 5) -> GroupEvent:
    return GroupEvent(
        ts=ts, group_id="g", protocol=None, event="heartbeat", member_id=member, client_id=client, broker=broker
    )


APART = [  # known clusters, events, number of events in each cluster
    ([TEA], [heard(X, "m"), heard(Z, "n", "d")], {"tea": 1, Z: 1}),
    ([TEA, MILK], [heard(X, "m"), heard(Z, "m")], {"milk": 1, "tea": 1}),
    # a broker of an unknown cluster: it has a member of the other broker, or the same client named the group there
    ([], [heard(X, "m"), heard(Z, "m")], {X: 2}),
    ([], [heard(X, "m"), heard(Z, "n")], {X: 1, Z: 1}),
    ([TEA], [heard(X, "m"), heard(Y, "m", "d")], {"tea": 2}),
    ([TEA], [heard(X, None), heard(Y, "m")], {"tea": 2}),
    ([TEA, MILK], [heard(X, None), heard(Z, None), heard(Y, "m")], {"milk": 1, "tea": 1, Y: 1}),
    ([TEA, MILK], [heard(X, None), heard(Z, "m"), heard(Y, "m")], {"milk": 2, "tea": 1}),
    # an address that belonged to one cluster, and later to another
    ([TEA, ClusterStatement(4, "4", X, "milk", ())], [heard(X, "m", ts=3), heard(X, "m", ts=4)], {"milk": 1, "tea": 1}),
]


@pytest.mark.parametrize(("statements", "events", "expected"), APART)
def test_groups_of_one_name(
    statements: list[ClusterStatement], events: list[GroupEvent], expected: dict[str | None, int]
) -> None:
    assert {cluster: len(own) for cluster, own in by_cluster(events, Clusters(statements))} == expected


def test_lag_is_not_that_of_another_cluster() -> None:
    log = two_members()
    log.commit("a", 750, 3, 0, 5)
    (event,) = events_of(log.calls[-1])
    here, there = ClusterStatement(event.ts, "a", "10.0.0.9:9092", "here", ()), ClusterStatement(1, "z", Z, "there", ())
    clusters = Clusters([here, there])
    mine, other = (
        Watermark(event.ts - 9, "y", "10.0.0.9:9092", "tea", 0, 8),
        Watermark(event.ts - 2, "z", Z, "tea", 0, 99),
    )
    unknown = Watermark(event.ts - 5, "w", Y, "tea", 0, 7)
    for marks, lag in (([mine, other], 3), ([other], None), ([mine, unknown], 2)):
        (row,) = fold("x", GROUP, [event], Ends(marks, clusters=clusters), clusters)["offset_commits"]
        assert (row["cluster"], row["lag"]) == ("here", lag)
