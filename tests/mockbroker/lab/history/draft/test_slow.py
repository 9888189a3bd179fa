"""Exact schedules of a consumer that processes records for longer than its session, and of the requests around its
return.

c3 is slow, and expires at a time D. c2 has a high network delay to the coordinator. In every schedule, c2's heartbeat
arrives at D + 0.7 s, c1's at D + 1.9 s, and c2's JoinGroup, which completes the join phase, at D + 2.3 s.
"""

from __future__ import annotations

import pytest
from tools.draft_groups import (
    GROUP,
    ILLEGAL,
    WARM,
    assert_shared,
    became,
    generation,
    last_heartbeat,
    moments,
    noticed,
    settled,
)

from mockbroker.lab.history.draft import DraftCluster, Error, Options, overlaps
from mockbroker.lab.history.draft.rules import Cause

WAYS = {"c2": 0.4, "c3": 0.05}


def slow(back: float, answer_gap: float = 0.0) -> tuple[DraftCluster, float]:
    """Let c3 process until ``back`` seconds after it has expired; return the cluster and the time of expiry. c3 sends
    its first heartbeat 0.45 s after it has finished."""
    rare = Options(commit_interval=1000.0)  # no commit is pending when a heartbeat is due
    cluster = settled(3, 6, options=rare, delays=WAYS)
    coordinator = cluster.coordinator(GROUP)
    assert coordinator is not None
    coordinator.answer_gap = answer_gap
    dead = last_heartbeat(cluster, "c3") + 6.0
    cluster.work("c3", dead + back - WARM)
    return cluster, dead


def after(cluster: DraftCluster, dead: float, kind: str, what: str, consumer: str) -> list[float]:
    return [round(m.time - dead, 3) for m in moments(cluster, kind, what, consumer, since=dead)]


def test_story_is_the_documented_one() -> None:
    cluster, dead = slow(100.0)
    cluster.run(dead + 2.5)
    assert after(cluster, dead, "received", "Heartbeat", "c2") == [pytest.approx(0.7)]
    assert after(cluster, dead, "received", "Heartbeat", "c1") == [pytest.approx(1.902)]
    assert after(cluster, dead, "received", "JoinGroup", "c2") == [pytest.approx(2.3)]


def test_processing_longer_than_a_session_is_disconnected() -> None:
    cluster, dead = slow(100.0)
    cluster.run(dead + 3)
    assert noticed(cluster, Cause.SILENCE) == [pytest.approx(dead)]
    (cut,) = moments(cluster, "cut")
    assert (cut.consumer, cut.time) == ("c3", pytest.approx(dead))
    assert sorted(cluster.store.read(GROUP).hosts.values()) == ["c1", "c2"]


def test_background_heartbeats_keep_a_slow_member_alive() -> None:
    cluster = settled(3, 6, options=Options(background=True), delays=WAYS)
    before = generation(cluster)
    cluster.work("c3", 12.0)
    cluster.run(WARM + 20)
    assert noticed(cluster, Cause.SILENCE) == []
    assert generation(cluster) == before
    gaps = [time for time, who, _, _ in cluster.records if who == "c3" and WARM + 0.2 < time < WARM + 11.9]
    assert gaps == []  # it read nothing while it was processing


def test_other_members_are_notified_of_the_rebalance() -> None:
    cluster, dead = slow(100.0)
    cluster.run(dead + 3)
    times = {m.consumer: m.time for m in moments(cluster, "answered", "Heartbeat answer", error=ILLEGAL, since=dead)}
    assert times == {"c1": pytest.approx(dead + 1.902), "c2": pytest.approx(dead + 0.7)}


def test_own_heartbeat_first_cancels_the_rebalance() -> None:
    cluster, dead = slow(0.05)
    before = generation(cluster)
    cluster.run(dead + 10)
    (heartbeat, *_) = moments(cluster, "answered", "Heartbeat answer", "c3", since=dead)
    assert heartbeat.error is Error.NONE
    assert heartbeat.time - dead < 0.7
    assert moments(cluster, "answered", error=ILLEGAL, since=dead) == []
    assert generation(cluster) == before
    assert cluster.is_settled(GROUP)
    assert_shared(cluster, 6, {"c1", "c2", "c3"})


def test_other_heartbeat_first_slow_member_rebalances_too() -> None:
    cluster, dead = slow(0.4)
    before = generation(cluster)
    cluster.run(dead + 10)
    (heartbeat, *_) = moments(cluster, "answered", "Heartbeat answer", "c3", since=dead)
    assert 0.7 < heartbeat.time - dead < 2.3
    assert heartbeat.error is ILLEGAL
    assert became(cluster, "c3")[-2:] == ["Stopped consumption", "Part of a group"]
    assert generation(cluster) == before + 1


def test_timing_decides_which_heartbeat_is_first() -> None:
    outcomes = []
    for back in (0.2, 0.22, 0.24, 0.26, 0.28, 0.3):
        cluster, dead = slow(back)
        before = generation(cluster)
        cluster.run(dead + 10)
        (heartbeat, *_) = moments(cluster, "received", "Heartbeat", "c3", since=dead)
        first = heartbeat.time < dead + 0.7
        outcomes.append(first)
        assert generation(cluster) == (before if first else before + 1)
    assert outcomes == sorted(outcomes, reverse=True)
    assert set(outcomes) == {True, False}


def test_join_before_any_response_is_in_this_generation() -> None:
    cluster, dead = slow(0.9)
    before, its_id = generation(cluster), cluster.consumers["c3"].consumer_id
    cluster.run(dead + 10)
    (joined,) = moments(cluster, "received", "JoinGroup", "c3", since=dead)
    answers = moments(cluster, "answered", "JoinGroup answer", since=dead)
    assert joined.time < min(m.time for m in answers)
    assert [m.generation for m in answers] == [before + 1] * 3
    assert cluster.consumers["c3"].consumer_id == its_id
    assert_shared(cluster, 6, {"c1", "c2", "c3"})


def test_dead_consumer_does_not_delay_a_rebalance() -> None:
    cluster, dead = slow(100.0)
    cluster.run(dead + 3)
    (written,) = [time for time, _, _ in cluster.rebalances if time > dead]
    assert written == pytest.approx(dead + 2.3)  # when the last live member sent JoinGroup


def test_join_after_the_first_response_begins_another_round() -> None:
    cluster, dead = slow(1.8, answer_gap=1.0)
    before, its_id = generation(cluster), cluster.consumers["c3"].consumer_id
    cluster.run(dead + 15)
    (joined,) = moments(cluster, "received", "JoinGroup", "c3", since=dead)
    first = [m for m in moments(cluster, "answered", "JoinGroup answer", since=dead) if m.generation == before + 1]
    assert {m.consumer for m in first} == {"c1", "c2"}
    assert first[0].time < joined.time < first[1].time
    (again,) = noticed(cluster, Cause.JOIN, since=dead)
    assert again == first[1].time  # the first round was completed before
    second = [m for m in moments(cluster, "answered", "JoinGroup answer", since=dead) if m.generation == before + 2]
    assert {m.consumer for m in second} == {"c1", "c2", "c3"}
    assert cluster.consumers["c3"].consumer_id == its_id
    assert_shared(cluster, 6, {"c1", "c2", "c3"})


def test_join_that_times_out_rediscovers_the_coordinator() -> None:
    cluster, dead = slow(1.8, answer_gap=1.0)
    cluster.at(dead + 2.5, cluster.pause, "c2", 20.0)  # the next round has to wait until c2 has expired
    cluster.run(dead + 12)
    first, second = moments(cluster, "received", "JoinGroup", "c3", since=dead)
    assert second.time - first.time == pytest.approx(6.0 + 0.3)  # a session timeout, then connect, look up, connect
    between = [m.what for m in moments(cluster, consumer="c3", since=first.time) if m.time < second.time]
    assert "ConsumerMetadata" in between
    assert "Heartbeat" not in between
    answers = moments(cluster, "answered", "JoinGroup answer", "c3", since=dead)
    assert [m.time > second.time for m in answers] == [True]
    assert_shared(cluster, 6, {"c1", "c3"})
    cluster.run(dead + 40)
    assert_shared(cluster, 6, {"c1", "c2", "c3"})


def test_member_back_after_the_round_is_unknown_and_joins_as_new() -> None:
    cluster, dead = slow(5.0)
    before, its_id = generation(cluster), cluster.consumers["c3"].consumer_id
    cluster.run(dead + 20)
    (heartbeat, *_) = moments(cluster, "answered", "Heartbeat answer", "c3", since=dead)
    assert heartbeat.error is Error.UNKNOWN_CONSUMER
    assert cluster.consumers["c3"].consumer_id not in (None, its_id)
    assert generation(cluster) == before + 2
    assert_shared(cluster, 6, {"c1", "c2", "c3"})


def test_slow_member_reads_partitions_that_others_own() -> None:
    cluster, dead = slow(5.0)
    cluster.run(dead + 20)
    assert {one.consumer for one, _ in overlaps(cluster.spans)} == {"c3"}  # until it learns that it has expired
    assert all(one.until > dead + 5.0 for one, _ in overlaps(cluster.spans))
    kept = [m for m in moments(cluster, "answered", "OffsetCommit answer", "c3", since=dead) if m.error is Error.NONE]
    rejoined = min(m.time for m in moments(cluster, "answered", "JoinGroup answer", "c3", since=dead))
    assert all(m.time > rejoined for m in kept)  # records that it read after it had expired were never committed
