"""Failures of coordinators before, between and after the steps of a rebalance, and at every single action."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count, pairwise

import pytest
from effort import every
from tools.draft_groups import (
    GROUP,
    ILLEGAL,
    TOPIC,
    WARM,
    assert_shared,
    became,
    generation,
    last_heartbeat,
    moments,
    noticed,
    reads,
    settled,
)

from mockbroker.lab.history.draft import DraftCluster, DraftSettings, Error, Moment, Options, overlaps
from mockbroker.lab.history.draft.broker import subset_of
from mockbroker.lab.history.draft.failover import (
    STEPS,
    received_join,
    sent_generation,
    sent_illegal_generation,
    wrote_generation,
)
from mockbroker.lab.history.draft.failover import noticed_change as has_noticed
from mockbroker.lab.history.draft.rules import Cause

APART = {"c2": 0.05, "c3": 0.1}  # delays that separate the heartbeats of three members


def ready(cluster: DraftCluster) -> float:
    """Return the time at which the next coordinator had loaded the group."""
    return moments(cluster, "became", "Ready")[0].time


def at_successor(cluster: DraftCluster, failed: int, consumer: str | None = None) -> list[Moment]:
    """Return the requests that the next coordinator received from the group and its answers, in order."""
    return [
        m
        for m in moments(cluster, consumer=consumer)
        if m.node not in (None, failed) and m.kind in ("received", "answered") and "Metadata" not in m.what
    ]


def only_struck(cluster: DraftCluster) -> int:
    """Return the only broker that failed."""
    (failed,) = moments(cluster, "failed")
    assert failed.node is not None
    return failed.node


def test_only_groups_of_the_failed_broker_move() -> None:
    cluster = settled()
    before = dict(cluster.leaders)
    failed = cluster.fail_coordinator(GROUP)
    cluster.run(WARM + 5)
    after = cluster.leaders
    assert {subset for subset, node in before.items() if after[subset] != node} == {
        subset for subset, node in before.items() if node == failed
    }
    assert failed not in after.values()


def test_members_find_the_next_coordinator_without_rejoining() -> None:
    cluster = settled()
    before = generation(cluster)
    cluster.fail_coordinator(GROUP)
    cluster.run(WARM + 10)
    assert cluster.is_settled(GROUP)
    assert generation(cluster) == before
    assert became(cluster, "c1") == ["Re-discover co-ordinator", "Part of a group"]


def test_looking_for_the_coordinator_does_not_stop_reading() -> None:
    cluster = settled(2, settings=DraftSettings(notice=2.0, load=1.0))
    cluster.fail_coordinator(GROUP)
    cluster.run(WARM + 10)
    looking, back = (m.time for m in moments(cluster, "became", consumer="c1"))
    assert back - looking > 2.5
    assert len(reads(cluster, "c1", looking, back)) >= 25
    times = reads(cluster, "c1")
    assert max(after - before for before, after in pairwise(times)) == pytest.approx(0.1)


def test_member_after_loading_is_accepted_as_before() -> None:
    cluster = settled(settings=DraftSettings(notice=0.05, load=0.0))
    before = generation(cluster)
    failed = cluster.fail_coordinator(GROUP)
    cluster.run(WARM + 10)
    answers = [m for m in at_successor(cluster, failed) if m.kind == "answered"]
    assert {m.error for m in answers} == {Error.NONE}
    assert generation(cluster) == before


def test_requests_while_loading_are_refused_and_retried() -> None:
    cluster = settled(settings=DraftSettings(load=1.5))
    before = generation(cluster)
    failed = cluster.fail_coordinator(GROUP)
    cluster.run(WARM + 10)
    answers = [m.error for m in at_successor(cluster, failed, "c1") if m.kind == "answered"]
    early = answers.count(Error.COORDINATOR_STARTUP_NOT_COMPLETE)
    assert early > 3
    assert set(answers[:early]) == {Error.COORDINATOR_STARTUP_NOT_COMPLETE}
    assert set(answers[early:]) == {Error.NONE}
    requested = list(moments(cluster, "received", "ConsumerMetadata", "c1"))
    assert len(requested) > early  # it looks up the coordinator each time
    assert generation(cluster) == before


def test_member_after_its_session_joins_as_a_new_one() -> None:
    cluster = settled()
    before, former = generation(cluster), cluster.consumers["c2"].consumer_id
    cluster.fail_coordinator(GROUP)
    cluster.pause("c2", 15.0)
    cluster.run(WARM + 30)
    assert noticed(cluster, Cause.SILENCE) == [pytest.approx(ready(cluster) + 6.0)]
    assert noticed(cluster, Cause.JOIN) != []
    assert became(cluster, "c2")[-3:] == [
        "Re-discover co-ordinator",
        "Start up & discover co-ordinator",
        "Part of a group",
    ]
    assert cluster.consumers["c2"].consumer_id != former
    assert generation(cluster) == before + 2  # one generation without the member, and one with it
    assert_shared(cluster, 4, {"c1", "c2"})


def test_member_that_died_with_its_coordinator_expires() -> None:
    cluster = settled(3, 6)
    cluster.fail_coordinator(GROUP)
    cluster.crash("c3")
    cluster.run(WARM + 15)
    assert noticed(cluster, Cause.SILENCE) == [pytest.approx(ready(cluster) + 6.0)]
    assert_shared(cluster, 6, {"c1", "c2"})


def test_consumer_without_a_coordinator_connection() -> None:
    cluster = settled(1)
    failed = cluster.fail_coordinator(GROUP)
    cluster.run(WARM + 0.501)
    successor = cluster.coordinator_node(GROUP)
    cluster.refuse(successor, 3.0)
    cluster.run(WARM + 3.5)
    answers = list(moments(cluster, "answered", "ConsumerMetadata answer", "c1", since=WARM + 0.6))
    assert len(answers) > 5  # it has found the coordinator
    assert at_successor(cluster, failed) == []
    cluster.run(WARM + 8)
    assert [m.what for m in at_successor(cluster, failed)][:2] == ["Heartbeat", "Heartbeat answer"]
    assert cluster.is_settled(GROUP)


def test_loading_coordinator_refuses_heartbeats_and_joins() -> None:
    cluster = settled(settings=DraftSettings(load=2.0))
    cluster.strike(received_join)
    cluster.add(GROUP, [TOPIC])
    cluster.run(WARM + 20)
    failed = only_struck(cluster)
    early = [m for m in at_successor(cluster, failed) if m.kind == "answered" and m.time < ready(cluster)]
    reported = {(m.what, m.error) for m in early}
    assert reported == {
        ("Heartbeat answer", Error.COORDINATOR_STARTUP_NOT_COMPLETE),
        ("JoinGroup answer", Error.ILLEGAL_PROTOCOL_STATE),
    }
    assert cluster.is_settled(GROUP)
    assert_shared(cluster, 4, {"c1", "c2", "c3"})


def test_first_start_refuses_requests_until_loaded() -> None:
    cluster = DraftCluster({TOPIC: 4}, settings=DraftSettings(load=2.0))
    cluster.add(GROUP, [TOPIC])
    cluster.run(WARM)
    early = moments(cluster, "answered", "JoinGroup answer", since=0.0)[:-1]
    assert len(early) > 5
    assert {m.error for m in early} == {Error.COORDINATOR_STARTUP_NOT_COMPLETE}
    assert cluster.is_settled(GROUP)


def test_stale_metadata_names_a_former_coordinator_that_refuses() -> None:
    cluster = settled(1)
    former = cluster.coordinator_node(GROUP)
    successor = (former + 1) % 3
    for node in cluster.brokers:
        cluster.updates[node] = 1.0  # the controller updates each broker's metadata after 1 s
    cluster.move_group(GROUP, successor)
    assert {broker.metadata[subset_of(GROUP)] for broker in cluster.brokers.values()} == {former}
    cluster.run(WARM + 6)
    refused = moments(cluster, "answered", consumer="c1", error=Error.NOT_COORDINATOR_FOR_GROUP)
    assert len(refused) > 3
    assert {m.node for m in refused} == {former}
    assert max(m.time for m in refused) < WARM + 1.2
    assert moments(cluster, "received", "Heartbeat", "c1")[-1].node == successor
    assert cluster.messages["UpdateMetadata"] == 3
    assert cluster.is_settled(GROUP)


def test_requests_at_a_moved_coordinator_are_redirected() -> None:
    cluster = settled()
    former = cluster.coordinator_node(GROUP)
    cluster.add(GROUP, [TOPIC])
    while not moments(cluster, "received", "JoinGroup", "c3"):
        cluster.run(cluster.now + 0.001)
    cluster.move_group(GROUP, (former + 1) % 3)
    cluster.run(WARM + 15)
    (sent_on, *_) = moments(cluster, "answered", "JoinGroup answer", "c3")
    assert sent_on.error is Error.NOT_COORDINATOR_FOR_GROUP
    assert_shared(cluster, 4, {"c1", "c2", "c3"})


def test_next_coordinator_notices_partitions_added_meanwhile() -> None:
    cluster = settled()
    cluster.fail_coordinator(GROUP)
    cluster.set_topic(TOPIC, 6)
    assert cluster.store.notifications == 0
    cluster.run(WARM + 10)
    assert noticed(cluster, Cause.CHANGE) == [ready(cluster)]
    assert_shared(cluster, 6, {"c1", "c2"})
    cluster.set_topic(TOPIC, 7)
    assert cluster.store.notifications == 1


def test_broker_restarted_before_detection_reloads_its_groups() -> None:
    cluster = settled(settings=DraftSettings(notice=1.0))
    before = generation(cluster)
    node = cluster.fail_coordinator(GROUP)
    cluster.at(WARM + 0.3, cluster.recover, node)
    cluster.run(WARM + 10)
    assert cluster.coordinator_node(GROUP) == node
    assert ready(cluster) == pytest.approx(WARM + 0.5)
    assert (cluster.is_settled(GROUP), generation(cluster)) == (True, before)


def test_first_broker_back_coordinates_after_all_failed() -> None:
    cluster = settled()
    before = generation(cluster)
    for node in range(3):
        cluster.fail(node)
    cluster.run(WARM + 5)
    assert cluster.coordinator(GROUP) is None
    cluster.recover(1)
    cluster.run(WARM + 10)
    assert set(cluster.leaders.values()) == {1}
    assert (cluster.is_settled(GROUP), generation(cluster)) == (True, before)


# --- the five steps of a rebalance ---


def test_failure_after_noticing_new_partitions_notices_again() -> None:
    cluster = settled(3, 6, delays=APART)
    before = generation(cluster)
    cluster.strike(has_noticed)
    cluster.set_topic(TOPIC, 9)
    cluster.run(WARM + 15)
    failed = only_struck(cluster)
    first, again = moments(cluster, "noticed", Cause.CHANGE.value)
    assert (first.node, first.time) == (failed, WARM)
    assert again.time == ready(cluster)
    assert generation(cluster) == before + 1
    assert_shared(cluster, 9, {"c1", "c2", "c3"})


def test_failure_after_noticing_an_expiry_notices_it_again() -> None:
    cluster = settled(3, 6, delays=APART)
    cluster.crash("c3")
    cluster.strike(has_noticed)
    cluster.run(WARM + 20)
    only_struck(cluster)
    _, again = noticed(cluster, Cause.SILENCE)
    assert again == pytest.approx(ready(cluster) + 6.0)
    assert_shared(cluster, 6, {"c1", "c2"})


def test_new_member_joins_the_next_coordinator() -> None:
    cluster = settled()
    cluster.strike(has_noticed)
    cluster.add(GROUP, [TOPIC])
    cluster.run(WARM + 15)
    only_struck(cluster)
    first, again = noticed(cluster, Cause.JOIN)
    assert first < ready(cluster) < again
    assert_shared(cluster, 4, {"c1", "c2", "c3"})


def dead_and_back(strike: Callable[[Moment], bool]) -> tuple[DraftCluster, int]:
    """Let c3 pause until its session has expired, and continue just after the coordinator failed; return the cluster
    and the generation before the failure."""
    cluster = settled(3, 6, delays=APART)
    before, heard = generation(cluster), last_heartbeat(cluster, "c3")
    cluster.pause("c3", heard + 8.2 - WARM)
    cluster.strike(strike)
    cluster.run(WARM + 25)
    (dead,) = noticed(cluster, Cause.SILENCE)
    assert dead == pytest.approx(heard + 6.0)
    return cluster, before


def test_expired_member_back_before_any_join_no_rebalance() -> None:
    cluster, before = dead_and_back(sent_illegal_generation)
    failed = only_struck(cluster)
    (refused,) = moments(cluster, "answered", "Heartbeat answer", error=ILLEGAL)
    assert became(cluster, refused.consumer or "") == ["Stopped consumption", "Part of a group"]
    assert {m.what for m in at_successor(cluster, failed) if m.kind == "received"} == {"Heartbeat", "OffsetCommit"}
    assert generation(cluster) == before
    assert cluster.is_settled(GROUP)
    assert_shared(cluster, 6, {"c1", "c2", "c3"})


def test_expired_member_back_after_a_join_all_rebalance() -> None:
    cluster, before = dead_and_back(received_join)
    failed = only_struck(cluster)
    received = [(m.consumer, m.what) for m in at_successor(cluster, failed) if m.kind == "received"]
    joined = {consumer for consumer, what in received if what == "JoinGroup"}
    assert joined == {"c1", "c2", "c3"}
    first_said = dict(reversed(received))
    assert sorted(first_said.values()) == ["Heartbeat", "Heartbeat", "JoinGroup"]  # one rejoins first
    assert generation(cluster) == before + 1
    assert_shared(cluster, 6, {"c1", "c2", "c3"})


def test_expired_member_stays_away_rebalance_begins_again() -> None:
    cluster = settled(3, 6, delays=APART)
    before = generation(cluster)
    cluster.crash("c3", silent=True)
    cluster.strike(sent_illegal_generation)
    cluster.run(WARM + 30)
    only_struck(cluster)
    assert len(noticed(cluster, Cause.SILENCE)) == 2
    assert generation(cluster) == before + 1
    assert_shared(cluster, 6, {"c1", "c2"})


@pytest.mark.parametrize("asks_first", [True, False])
def test_generation_written_but_unsent_is_never_used_twice(asks_first: bool) -> None:
    cluster = settled(3, 6, options=Options(asks_first=asks_first), delays=APART)
    before = generation(cluster)
    cluster.set_topic(TOPIC, 9)
    cluster.strike(wrote_generation)
    cluster.run(WARM + 4)
    failed = only_struck(cluster)
    assert next(number for time, _, number in cluster.rebalances if time > WARM) == before + 1
    cluster.run(WARM + 15)
    assert generation(cluster) == before + 2
    generations = {m.generation for m in moments(cluster, "answered", "JoinGroup answer", error=Error.NONE)}
    assert generations == {before + 2}
    reported = at_successor(cluster, failed)
    first = {m.consumer: m for m in reversed(reported) if m.kind == "received" and m.time > ready(cluster)}
    assert {m.what for m in first.values()} == {"Heartbeat" if asks_first else "JoinGroup"}
    if asks_first:
        assert {m.generation for m in first.values()} == {before}
        illegal = {m.consumer for m in reported if m.error is ILLEGAL and m.what == "Heartbeat answer"}
        assert illegal == {"c1", "c2", "c3"}
        assert noticed(cluster, Cause.STALE) != []
    assert_shared(cluster, 9, {"c1", "c2", "c3"})


def test_answered_member_keeps_its_generation_until_others_join() -> None:
    cluster = settled(3, 6, delays=APART)
    before = generation(cluster)
    cluster.set_topic(TOPIC, 9)
    cluster.strike(sent_generation)
    cluster.run(WARM + 15)
    failed = only_struck(cluster)
    (answered, *_) = moments(cluster, "answered", "JoinGroup answer", error=Error.NONE)
    assert answered.generation == before + 1
    lucky = answered.consumer or ""
    reported = [
        m for m in at_successor(cluster, failed, lucky) if m.error is not Error.COORDINATOR_STARTUP_NOT_COMPLETE
    ]
    heartbeat = next(n for n, m in enumerate(reported) if m.kind == "received" and m.time > ready(cluster))
    assert (reported[heartbeat].what, reported[heartbeat].generation) == ("Heartbeat", before + 1)
    assert (reported[heartbeat + 1].what, reported[heartbeat + 1].error) == ("Heartbeat answer", Error.NONE)
    for consumer in {"c1", "c2", "c3"} - {lucky}:
        allowed = [
            m for m in at_successor(cluster, failed, consumer) if m.kind == "received" and m.time > ready(cluster)
        ]
        assert allowed[0].what == "JoinGroup"
    assert became(cluster, lucky)[-3:] == ["Part of a group", "Stopped consumption", "Part of a group"]
    assert generation(cluster) == before + 2
    assert_shared(cluster, 9, {"c1", "c2", "c3"})


# --- failure at any action ---


def grow(cluster: DraftCluster) -> None:
    cluster.set_topic(TOPIC, 9)


def add(cluster: DraftCluster) -> None:
    cluster.add(GROUP, [TOPIC])


def die(cluster: DraftCluster) -> None:
    cluster.crash("c3")


CHANGES = {
    "grow": (grow, 9, {"c1", "c2", "c3"}),
    "add": (add, 6, {"c1", "c2", "c3", "c4"}),
    "die": (die, 6, {"c1", "c2"}),
}


def actions_of(change: Callable[[DraftCluster], None], strike: Callable[[Moment], bool]) -> DraftCluster:
    cluster = settled(3, 6, delays=APART)
    cluster.strike(strike)
    change(cluster)
    cluster.run(WARM + 40)
    return cluster


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("step", STEPS)
def test_every_step_can_fail(change: str, step: str) -> None:
    do, partitions, consumers = CHANGES[change]
    cluster = actions_of(do, STEPS[step])
    only_struck(cluster)
    assert cluster.is_settled(GROUP)
    assert_shared(cluster, partitions, consumers)


@pytest.mark.parametrize("change", CHANGES)
def test_a_failure_after_any_action_heals(change: str) -> None:
    do, partitions, consumers = CHANGES[change]
    calm = actions_of(do, lambda _: False)
    coordinator = calm.coordinator_node(GROUP)
    end = calm.rebalances[-1][0] + 0.3
    number = len([m for m in moments(calm) if m.node == coordinator and m.time <= end])
    assert number > 20
    for nth in every(3, range(number)):
        counter = count()
        cluster = actions_of(
            do, lambda moment, nth=nth, counter=counter: moment.node == coordinator and next(counter) == nth
        )
        only_struck(cluster)
        assert cluster.is_settled(GROUP), nth
        assert_shared(cluster, partitions, consumers)
        assert overlaps(cluster.spans) == [], nth
        assert_no_record_was_left_out(cluster)
        written = [n for _, _, n in cluster.rebalances]
        assert written == sorted(set(written)), nth  # no generation is written twice


def assert_no_record_was_left_out(cluster: DraftCluster) -> None:
    """Check that no record is skipped: a consumer continues at the committed offset, and may read records again."""
    read: dict[tuple[str, int], int] = {}
    for _, _, partition, offset in cluster.records:
        assert offset <= read.get(partition, 0)
        read[partition] = max(read.get(partition, 0), offset + 1)
