"""A group of the draft at work: the order of messages, the records that members read, and how long each step takes."""

from __future__ import annotations

import itertools
import re

import pytest
from golden import ROOT
from tools.draft_groups import (
    GROUP,
    ILLEGAL,
    TOPIC,
    WARM,
    assert_shared,
    beat,
    became,
    commit,
    generation,
    join,
    last_heartbeat,
    moments,
    noticed,
    reads,
    settled,
)

from mockbroker.lab.history.draft import DraftCluster, DraftSettings, Error, Options, overlaps, unowned
from mockbroker.lab.history.draft.actions import Answer
from mockbroker.lab.history.draft.messages import (
    ConsumerMetadataRequest,
    ConsumerMetadataResponse,
    HeartbeatRequest,
    OffsetFetchRequest,
)
from mockbroker.lab.history.draft.rules import Cause


def test_any_broker_names_the_coordinator_and_only_it_serves() -> None:
    cluster = settled()
    coordinator = cluster.coordinator_node(GROUP)
    for node, broker in cluster.brokers.items():
        answers = broker.handle(0, ConsumerMetadataRequest(group=GROUP), WARM)
        assert answers == [Answer(0, ConsumerMetadataResponse(node=coordinator))]
        fetch = OffsetFetchRequest(group=GROUP, partitions=())
        for request in (beat("g-1", 1), commit("g-1", 1), join(), fetch):
            (*_, answer) = [a for a in broker.handle(0, request, WARM) if isinstance(a, Answer)] or [None]
            served = answer is None or answer.response.error is not Error.NOT_COORDINATOR_FOR_GROUP
            assert served == (node == coordinator)


def test_consumers_spread_over_brokers_by_group() -> None:
    cluster = DraftCluster({TOPIC: 4})
    nodes = {cluster.coordinator_node(f"group-{number}") for number in range(20)}
    assert nodes == {0, 1, 2}


def test_heartbeat_error_then_stop_commit_join_and_read_on() -> None:
    cluster = settled(1)
    cluster.add(GROUP, [TOPIC])
    cluster.run(WARM + 5)
    story = [
        (m.kind, m.what, m.error)
        for m in moments(cluster, consumer="c1")
        if m.kind in ("received", "became") or m.error is ILLEGAL
    ]
    first = story.index(("answered", "Heartbeat answer", ILLEGAL))
    assert story[first - 1 : first + 6] == [
        ("received", "Heartbeat", Error.NONE),
        ("answered", "Heartbeat answer", ILLEGAL),
        ("became", "Stopped consumption", Error.NONE),
        ("received", "OffsetCommit", Error.NONE),
        ("received", "JoinGroup", Error.NONE),
        ("became", "Part of a group", Error.NONE),
        ("received", "OffsetFetch", Error.NONE),
    ]
    stopped, resumed = (m.time for m in moments(cluster, "became", consumer="c1"))
    assert reads(cluster, "c1", stopped, resumed) == []
    (answer,) = moments(cluster, "answered", "JoinGroup answer", "c1")
    assert answer.generation == 2
    later = moments(cluster, "received", "OffsetCommit", "c1", since=resumed)
    assert {m.generation for m in later} == {2}
    assert reads(cluster, "c1", resumed)


def test_reading_continues_at_the_committed_offsets() -> None:
    cluster = settled(1)
    cluster.add(GROUP, [TOPIC])
    cluster.run(WARM + 5)
    for number in range(4):
        offsets = [offset for _, _, partition, offset in cluster.records if partition == (TOPIC, number)]
        assert offsets == list(range(len(offsets)))  # no record is read twice or skipped


def test_a_heartbeat_without_an_error_does_not_interrupt_reading() -> None:
    cluster = settled(2)
    cluster.run(WARM + 20)
    assert len(moments(cluster, "answered", "Heartbeat answer", "c1")) == 10
    times = reads(cluster, "c1")
    gaps = {round(after - before, 6) for before, after in itertools.pairwise(times)}
    assert gaps == {0.1}


def test_silent_member_expires_and_others_get_its_partitions() -> None:
    cluster = settled(3, 6)
    cluster.crash("c3", silent=True)
    received = last_heartbeat(cluster, "c3")
    cluster.run(WARM + 10)
    assert noticed(cluster, Cause.SILENCE) == [pytest.approx(received + 6.0)]
    assert_shared(cluster, 6, {"c1", "c2"})
    assert cluster.is_settled(GROUP)


def test_every_member_has_joined_before_anybody_is_answered() -> None:
    cluster = settled(3, 6, delays={"c2": 0.1, "c3": 0.2})
    cluster.set_topic(TOPIC, 9)
    cluster.run(WARM + 8)
    joins = moments(cluster, "received", "JoinGroup")
    answers = moments(cluster, "answered", "JoinGroup answer")
    assert {m.consumer for m in joins} == {m.consumer for m in answers} == {"c1", "c2", "c3"}
    assert len({m.time for m in joins}) == 3
    assert max(m.time for m in joins) <= min(m.time for m in answers)
    assert len({m.generation for m in answers}) == 1
    assert_shared(cluster, 9, {"c1", "c2", "c3"})


def test_added_partitions_begin_a_rebalance() -> None:
    cluster = settled()
    cluster.at(WARM + 1, cluster.set_topic, TOPIC, 7)
    cluster.run(WARM + 6)
    assert noticed(cluster, Cause.CHANGE) == [WARM + 1]
    assert_shared(cluster, 7, {"c1", "c2"})


def test_creation_of_a_subscribed_topic_begins_a_rebalance() -> None:
    cluster = DraftCluster({TOPIC: 2})
    for _ in range(2):
        cluster.add(GROUP, [TOPIC, "late"])
    cluster.run(WARM)
    assert_shared(cluster, 2, {"c1", "c2"})
    cluster.set_topic("late", 2)
    cluster.run(WARM + 5)
    assert noticed(cluster, Cause.CHANGE) == [WARM]
    assert_shared(cluster, 2, {"c1", "c2"}, [TOPIC, "late"])


def test_unread_topics_cause_no_rebalance() -> None:
    cluster = settled()
    cluster.set_topic("other", 5)
    cluster.run(WARM + 6)
    assert cluster.store.notifications == 0
    assert moments(cluster, "noticed") == []


def test_only_coordinators_are_notified_not_consumers() -> None:
    cluster = settled(5, 8)
    cluster.set_topic(TOPIC, 9)
    assert cluster.store.notifications == 1


def test_generation_grows_with_every_rebalance() -> None:
    cluster = settled()
    before, members = generation(cluster), set(cluster.store.read(GROUP).hosts)
    for more in range(1, 4):
        cluster.set_topic(TOPIC, 4 + more)
        cluster.run(WARM + 5 * more)
        assert generation(cluster) == before + more
        assert set(cluster.store.read(GROUP).hosts) == members


def test_a_change_of_partitions_goes_through_its_steps_in_order() -> None:
    cluster = settled(1)
    cluster.set_topic(TOPIC, 5)
    cluster.run(WARM + 3)
    kinds = [(m.kind, m.what) for m in cluster.trace if m.time >= WARM and m.kind != "kept"]
    begin = kinds.index(("noticed", Cause.CHANGE.value))
    wanted = [
        ("noticed", Cause.CHANGE.value),
        ("became", "Prepare for rebalance"),
        ("answered", "Heartbeat answer"),
        ("received", "OffsetCommit"),
        ("received", "JoinGroup"),
        ("became", "Rebalancing"),
        ("wrote", GROUP),
        ("answered", "JoinGroup answer"),
        ("became", "Steady"),
    ]
    rest = iter(kinds[begin:])
    assert all(step in rest for step in wanted)


def test_groups_do_not_disturb_each_other() -> None:
    cluster = settled()
    before = generation(cluster)
    cluster.add("another", [TOPIC])
    cluster.run(WARM + 5)
    assert (generation(cluster), cluster.store.read("another").generation) == (before, 1)
    assert {span.consumer for span in cluster.spans if span.group == "another"} == {"c3"}


def test_an_id_is_good_in_its_own_group_only() -> None:
    cluster = settled(1)
    cluster.add("another", [TOPIC])
    cluster.run(WARM + 5)
    broker = cluster.brokers[cluster.coordinator_node("another")]
    for consumer, expected in (("c1", Error.UNKNOWN_CONSUMER), ("c2", Error.NONE)):
        consumer_id = cluster.consumers[consumer].consumer_id
        request = HeartbeatRequest(group="another", consumer_id=consumer_id, generation=1)
        (answer,) = broker.handle(0, request, cluster.now)
        assert isinstance(answer, Answer)
        assert answer.response.error is expected


def test_heartbeat_interval_is_session_timeout_by_frequency() -> None:
    for session, frequency in ((6.0, 3.0), (6.0, 12.0), (10.0, 4.0)):
        cluster = settled(1, options=Options(session_timeout=session, heartbeat_frequency=frequency))
        assert cluster.store.read(GROUP).session_timeout == session  # the value of the JoinGroup request
        cluster.run(WARM + 30)
        times = [m.time for m in moments(cluster, "received", "Heartbeat")]
        gaps = [after - before for before, after in itertools.pairwise(times)]
        assert gaps
        assert gaps == pytest.approx([session / frequency] * len(gaps), abs=0.003)  # some wait for a commit's answer


def test_silent_coordinator_is_rediscovered_after_a_session() -> None:
    cluster = settled()
    cluster.fail_coordinator(GROUP, silent=True)
    last = {
        (m.consumer, m.what): m.time for m in moments(cluster, "received", since=0.0) if m.what != "ConsumerMetadata"
    }
    cluster.run(WARM + 15)
    for consumer in ("c1", "c2"):
        next_request = min(last[consumer, "Heartbeat"] + 2.0, last[consumer, "OffsetCommit"] + 1.0)
        (looked, *_) = moments(cluster, "became", "Re-discover co-ordinator", consumer)
        assert looked.time == pytest.approx(next_request + 6.0, abs=0.005)
    assert cluster.is_settled(GROUP)


def test_first_heartbeat_is_an_interval_after_the_join_response() -> None:
    cluster = settled(1)
    story = moments(cluster, consumer="c1", since=0.0)
    joined = next(m.time for m in story if m.what == "Part of a group")
    heartbeats = [m.time for m in story if (m.kind, m.what) == ("received", "Heartbeat")]
    assert heartbeats[0] == pytest.approx(joined + 2.0, abs=0.003)


def test_first_request_after_rediscovery_is_a_heartbeat() -> None:
    cluster = settled(1)
    cluster.fail_coordinator(GROUP)
    cluster.run(WARM + 3)
    requested = [m for m in moments(cluster, "received", consumer="c1") if m.what != "ConsumerMetadata"]
    assert requested[0].what == "Heartbeat"
    times = [m.time for m in moments(cluster, "answered", "ConsumerMetadata answer") if m.time < requested[0].time]
    assert requested[0].time - times[-1] == pytest.approx(0.004)  # the answer, two delays to connect, and the request


FREQUENCIES = (2, 3, 6, 12, 30)


@pytest.fixture(scope="module")
def measured() -> list[tuple[int, float, int]]:
    """Return, for each heartbeat frequency, the longest wait of six new members in seconds, and the number of
    heartbeats of three members in a minute."""
    results = []
    for frequency in FREQUENCIES:
        options = Options(heartbeat_frequency=frequency)
        cluster = settled(3, 6, options=options)
        waits = []
        for number in range(6):  # at different moments between two heartbeats
            begin = WARM + 20.37 * number
            cluster.run(begin)
            consumer = cluster.add(GROUP, [TOPIC], options)
            cluster.run(begin + 10)
            waits.append(min(span.since for span in cluster.spans if span.consumer == consumer) - begin)
            cluster.crash(consumer)
            cluster.run(begin + 20)
        before = cluster.messages["Heartbeat"]
        cluster.run(cluster.now + 60)
        results.append((frequency, max(waits), cluster.messages["Heartbeat"] - before))
    return results


def test_more_heartbeats_quicker_rebalances_more_requests(measured: list[tuple[int, float, int]]) -> None:
    waits, requests = [wait for _, wait, _ in measured], [count for _, _, count in measured]
    assert waits == sorted(waits, reverse=True)
    assert all(wait <= 6.0 / frequency + 0.05 for frequency, wait, _ in measured)  # one interval, and delays
    assert all(
        wait > 6.0 / frequency / 2 for frequency, wait, _ in measured
    )  # some joined just after a heartbeat and waited for the next one
    assert requests == pytest.approx([3 * 60 * frequency / 6.0 for frequency in FREQUENCIES], abs=3)


def test_docs_have_the_measured_figures(measured: list[tuple[int, float, int]]) -> None:
    lines = (ROOT / "docs" / "draft.md").read_text("utf-8").splitlines()
    assert [f"| {frequency} | {wait:.2f} s | {count} |" for frequency, wait, count in measured] == [
        line for line in lines if re.fullmatch(r"\| \d+ \| [\d.]+ s \| \d+ \|", line)
    ]


def test_leaving_member_is_noticed_after_a_session() -> None:
    cluster = settled()
    received = last_heartbeat(cluster, "c2")
    cluster.leave("c2")
    cluster.run(WARM + 10)
    assert noticed(cluster, Cause.SILENCE) == [pytest.approx(received + 6.0)]
    assert_shared(cluster, 4, {"c1"})
    assert unowned(cluster.spans, GROUP, (TOPIC, 3), WARM, WARM + 10) > 4.0
    for number in range(4):
        offsets = [offset for _, _, partition, offset in cluster.records if partition == (TOPIC, number)]
        assert offsets == list(range(len(offsets)))  # the commit of the leaving member arrived


def test_last_member_leaves_an_empty_group_of_a_new_generation() -> None:
    cluster = settled(1)
    cluster.crash("c1")
    cluster.run(WARM + 10)
    record = cluster.store.read(GROUP)
    assert (record.generation, dict(record.hosts), dict(record.ownership)) == (2, {}, {})
    cluster.start("c1")
    cluster.run(WARM + 20)
    assert generation(cluster) == 3
    assert_shared(cluster, 4, {"c1"})


def test_consumer_id_is_group_and_uuid_from_the_first_join() -> None:
    uuids = iter(["0b1c", "7d2e"])
    cluster = DraftCluster({TOPIC: 4}, uuid=lambda: next(uuids))
    cluster.add(GROUP, [TOPIC])
    assert cluster.consumers["c1"].consumer_id is None
    cluster.run(5)
    cluster.add(GROUP, [TOPIC])
    cluster.run(WARM)
    assert [one.consumer_id for one in cluster.consumers.values()] == ["g-0b1c", "g-7d2e"]


def test_a_new_id_is_given_after_all_members_have_joined() -> None:
    given: list[float] = []
    cluster = DraftCluster({TOPIC: 4}, uuid=lambda: given.append(cluster.now) or str(len(given)))
    cluster.add(GROUP, [TOPIC])
    cluster.run(5.5)
    cluster.add(GROUP, [TOPIC])
    cluster.run(WARM)
    (rejoined,) = moments(cluster, "received", "JoinGroup", "c1", since=5.5)
    assert given[1] == rejoined.time > moments(cluster, "received", "JoinGroup", "c2", since=5.5)[0].time


def test_generation_and_id_change_only_with_a_join_response() -> None:
    cluster = settled(2)
    cluster.add(GROUP, [TOPIC])
    known = {name: (one.generation, one.consumer_id) for name, one in cluster.consumers.items()}
    changed: list[tuple[str, float]] = []
    while cluster.now < WARM + 8:
        cluster.run(cluster.now + 0.001)
        for name, one in cluster.consumers.items():
            if (one.generation, one.consumer_id) != known[name]:
                known[name] = (one.generation, one.consumer_id)
                changed.append((name, cluster.now))
    answers = {(m.consumer, round(m.time + 0.001, 3)) for m in moments(cluster, "answered", "JoinGroup answer")}
    assert {(name, round(time, 3)) for name, time in changed} <= {
        (name, round(time + late, 3)) for name, time in answers for late in (0.0, 0.001)
    }
    assert len(changed) == 3


@pytest.mark.parametrize("rejoins_with_id", [True, False])
def test_joining_without_the_id_costs_a_whole_session(rejoins_with_id: bool) -> None:
    cluster = settled(2, options=Options(rejoins_with_id=rejoins_with_id))
    cluster.set_topic(TOPIC, 6)
    cluster.run(WARM + 15)
    assert_shared(cluster, 6, {"c1", "c2"})
    stopped = min(m.time for m in moments(cluster, "became", "Stopped consumption"))
    written = next(time for time, _, _ in cluster.rebalances if time > WARM)
    if rejoins_with_id:
        assert written - stopped < 0.01
    else:
        assert written - stopped == pytest.approx(6.0, abs=0.01)


def test_no_heartbeat_from_illegal_generation_to_join_response() -> None:
    cluster = settled(3, 6, delays={"c2": 0.1, "c3": 0.2})
    for number in range(3):
        cluster.at(WARM + 5.3 * number, cluster.add, GROUP, [TOPIC])
    cluster.at(WARM + 20, cluster.crash, "c2")
    cluster.run(WARM + 40)
    refusals = [n for n, m in enumerate(cluster.trace) if m.what == "Heartbeat answer" and m.error is ILLEGAL]
    assert len(refusals) > 8
    for number in refusals:
        after = [m for m in cluster.trace[number + 1 :] if m.consumer == cluster.trace[number].consumer]
        reported = [m.what for m in after if m.kind in ("received", "answered")]
        until = reported.index("JoinGroup answer") if "JoinGroup answer" in reported else len(reported)
        assert "Heartbeat" not in reported[:until]


def test_session_of_a_pending_join_is_not_checked() -> None:
    ways = {"c1": 0.4, "c2": 0.4, "c3": 0.65}  # so that c3's heartbeats arrive half a second after those of c1 and c2
    cluster = settled(3, 6, options=Options(commit_interval=1000.0), delays=ways)
    cluster.run(last_heartbeat(cluster, "c3") + 2.1)
    cluster.set_topic(TOPIC, 9)
    while not moments(cluster, "answered", "Heartbeat answer", "c3", error=ILLEGAL):
        cluster.run(cluster.now + 0.01)
    cluster.crash("c3", silent=True)
    heard, missed = last_heartbeat(cluster, "c1"), last_heartbeat(cluster, "c3")
    assert missed - heard == pytest.approx(0.5)
    cluster.run(heard + 6.2)  # more than a session timeout after the last heartbeat of c1 and c2
    coordinator = cluster.coordinator(GROUP)
    assert coordinator is not None
    assert {parked.request.host for parked in coordinator.parked} == {"c1", "c2"}
    assert noticed(cluster, Cause.SILENCE) == []
    cluster.run(heard + 12)
    assert noticed(cluster, Cause.SILENCE) == [pytest.approx(missed + 6.0)]
    answered = {m.consumer: m.time for m in moments(cluster, "answered", "JoinGroup answer", error=Error.NONE)}
    assert answered == {"c1": pytest.approx(missed + 6.0), "c2": pytest.approx(missed + 6.0)}
    assert_shared(cluster, 9, {"c1", "c2"})


def test_a_broker_serves_one_request_of_a_connection_at_a_time() -> None:
    cluster = settled(2, delays={"c2": 0.5})
    cluster.set_topic(TOPIC, 6)
    cluster.run(WARM + 2.2)
    coordinator = cluster.coordinator(GROUP)
    assert coordinator is not None
    (parked,) = coordinator.parked
    member = cluster.consumers["c1"]
    assert parked.request.consumer_id == member.consumer_id
    cluster.send("c1", member._link or 0, beat(member.consumer_id, member.generation))
    cluster.run(WARM + 2.5)
    sent = cluster.now
    assert moments(cluster, "received", "Heartbeat", "c1", since=WARM + 2.2) == []  # it waits for the JoinGroup
    cluster.run(WARM + 8)
    story = [
        (m.kind, m.what) for m in moments(cluster, consumer="c1", since=sent) if m.kind in ("received", "answered")
    ]
    assert story[:3] == [
        ("answered", "JoinGroup answer"),
        ("received", "Heartbeat"),
        ("answered", "Heartbeat answer"),
    ]


def test_pause_before_joining_leaves_it_out_of_the_generation() -> None:
    cluster = settled(3, 6)
    received = last_heartbeat(cluster, "c3")
    cluster.pause("c3", 12.0)
    cluster.set_topic(TOPIC, 9)
    cluster.run(WARM + 11)
    (written,) = [time for time, _, _ in cluster.rebalances if time > WARM]
    assert written == pytest.approx(received + 6.0)
    assert "c3" not in cluster.store.read(GROUP).hosts.values()
    cluster.run(WARM + 25)  # c3 has rejoined as a new member
    assert_shared(cluster, 9, {"c1", "c2", "c3"})
    assert "Start up & discover co-ordinator" in became(cluster, "c3")


def test_pause_after_joining_expires_a_session_after_response() -> None:
    cluster = settled(3, 6, delays={"c1": 0.1, "c2": 0.2})
    cluster.set_topic(TOPIC, 9)
    while not moments(cluster, "received", "JoinGroup", "c3"):
        cluster.run(cluster.now + 0.01)
    cluster.pause("c3", 20.0)
    cluster.run(WARM + 4)
    (answer,) = moments(cluster, "answered", "JoinGroup answer", "c3")
    assert "c3" in cluster.store.read(GROUP).hosts.values()
    cluster.run(WARM + 15)
    assert noticed(cluster, Cause.SILENCE) == [pytest.approx(answer.time + 6.0)]
    assert sorted(cluster.store.read(GROUP).hosts.values()) == ["c1", "c2"]


def test_pause_shorter_than_a_session_changes_nothing() -> None:
    cluster = settled(3, 6, delays={"c1": 0.1, "c2": 0.2})
    cluster.set_topic(TOPIC, 9)
    while not moments(cluster, "received", "JoinGroup", "c3"):
        cluster.run(cluster.now + 0.01)
    cluster.pause("c3", 5.0)
    cluster.run(WARM + 15)
    assert noticed(cluster, Cause.SILENCE) == []
    assert_shared(cluster, 9, {"c1", "c2", "c3"})


def test_a_long_pause_in_a_rebalance_is_a_death() -> None:
    cluster = settled(3, 6)
    cluster.set_topic(TOPIC, 9)
    while not moments(cluster, "answered", "Heartbeat answer", "c3", error=ILLEGAL):
        cluster.run(cluster.now + 0.0005)
    cluster.pause("c3", 9.0)
    last = last_heartbeat(cluster, "c3")
    cluster.run(WARM + 9)
    assert noticed(cluster, Cause.SILENCE) == [pytest.approx(last + 6.0)]
    assert sorted(cluster.store.read(GROUP).hosts.values()) == ["c1", "c2"]


def test_strategies_of_brokers_are_all_that_there_are() -> None:
    cluster = settled(1)
    cluster.add(GROUP, [TOPIC], Options(strategy="sticky"))
    cluster.run(WARM + 5)
    assert cluster.consumers["c2"].error is Error.UNKNOWN_PARTITIONING_STRATEGY
    assert became(cluster, "c2") == ["Start up & discover co-ordinator", "Down"]
    assert moments(cluster, "noticed") == []


def test_consumer_with_another_strategy_cannot_join() -> None:
    cluster = settled(1)
    cluster.add(GROUP, [TOPIC], Options(strategy="roundrobin"))
    cluster.run(WARM + 5)
    assert cluster.consumers["c2"].error is Error.INCONSISTENT_PARTITIONING_STRATEGY
    assert became(cluster, "c2")[-1] == "Down"
    assert moments(cluster, "noticed") == []


def test_restarted_group_may_have_another_strategy() -> None:
    cluster = settled(2)
    for consumer in ("c1", "c2"):
        cluster.crash(consumer)
    cluster.run(WARM + 10)
    for _ in range(2):
        cluster.add(GROUP, [TOPIC], Options(strategy="roundrobin"))
    cluster.run(WARM + 20)
    assert sorted(cluster.store.read(GROUP).ownership.values()) == [
        ((TOPIC, 0), (TOPIC, 2)),
        ((TOPIC, 1), (TOPIC, 3)),
    ]


def test_the_same_calls_give_the_same_trace() -> None:
    def story() -> DraftCluster:
        cluster = settled(3, 6)
        cluster.fail_coordinator(GROUP)
        cluster.add(GROUP, [TOPIC])
        cluster.run(WARM + 20)
        return cluster

    one, other = story(), story()
    assert one.trace == other.trace
    assert one.messages == other.messages
    assert one.spans == other.spans


def test_no_partition_has_two_owners_without_failures() -> None:
    cluster = DraftCluster({TOPIC: 6}, settings=DraftSettings(answer_gap=0.05))
    for number in range(5):
        cluster.at(1.7 * number, cluster.add, GROUP, [TOPIC])
    cluster.at(30.0, cluster.set_topic, TOPIC, 9)
    cluster.at(40.0, cluster.leave, "c3")
    cluster.run(60)
    assert overlaps(cluster.spans) == []
    assert_shared(cluster, 9, {"c1", "c2", "c4", "c5"})


def test_paused_consumer_keeps_deadlines_that_are_due_later() -> None:
    cluster = DraftCluster({TOPIC: 4})
    for _ in range(2):
        cluster.add(GROUP, [TOPIC])
    cluster.at(2.0, cluster.crash, "c2")
    cluster.run(4.0)
    cluster.start("c2")
    cluster.fail(1, silent=True)  # c2 looks up the coordinator at this broker and waits for the answer until second 10
    cluster.pause("c2", 3.0)  # events that were due before its crash become due during the pause
    cluster.run(30.0)
    assert cluster.is_settled(GROUP)
