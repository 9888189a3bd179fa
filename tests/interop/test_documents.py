"""Facts about groups with real clients, from docs/sources.md, most of them from "The classic protocol"."""

from __future__ import annotations

import inspect

import pytest
from interop.admins import ADMINS
from interop.stage import MARKS, MODULES, Member, Stage, need_client

pytestmark = MARKS
of_python = pytest.mark.parametrize("family", MODULES)

VALUES = [f"value-{number}" for number in range(40)]


def rebalances(stage: Stage) -> list[str]:
    """Return the reason of each rebalance: the client id and what the client did."""
    reasons = [event.reason.partition(" ") for event in stage.events("rebalance")]
    return [f"{stage.client_of(member_id)} {what}" for member_id, _, what in reasons]


def together(stage: Stage, *members: Member) -> None:
    """Wait until exactly these members share the stage's topic."""
    names = {member.name for member in members}
    stage.wait(f"a stable group of {sorted(names)}", lambda: stage.stable_with(names))


def only_indexes(stage: Stage) -> dict[str, list[int]]:
    return {name: [index for _, index in share] for name, share in stage.shares(stage.generation()).items()}


def grow(stage: Stage, topic: str, partitions: int) -> None:
    ADMINS["confluent-kafka"](stage.cluster.bootstrap_servers).create_partitions(topic, partitions)


def test_four_members_and_two_in_two_groups_of_four_partitions(stage: Stage) -> None:
    stage.topic, stage.partitions = "four", 4
    stage.cluster.create_topic(stage.topic, stage.partitions)
    stage.group = "A"
    four = [stage.member("kafka-python", f"A{number}", assignor="range") for number in range(4)]
    together(stage, *four)
    stage.produce(VALUES)  # not earlier: the first members would read records that other members read again
    stage.wait_values(VALUES, *four)
    for member in four:
        member.commit()
    assert only_indexes(stage) == {"A0": [0], "A1": [1], "A2": [2], "A3": [3]}
    stage.group = "B"
    two = [stage.member("confluent-kafka", f"B{number}", assignor="range") for number in range(2)]
    together(stage, *two)
    stage.wait("every record", lambda: {value for member in two for value in member.values} == set(VALUES))
    assert only_indexes(stage) == {"B0": [0, 1], "B1": [2, 3]}
    assert stage.cluster.committed("A") == {("four", index): 10 for index in range(4)}
    assert stage.cluster.committed("B") == {}


def test_seven_partitions_and_an_eighth_consumer_that_idles(stage: Stage) -> None:
    stage.topic, stage.partitions = "seven", 7
    stage.cluster.create_topic(stage.topic, stage.partitions)
    members, seen = [], []
    for number in range(3):
        members.append(stage.member("confluent-kafka", f"C{number}", assignor="range"))
        together(stage, *members)
        seen.append(only_indexes(stage))
    assert seen == [
        {"C0": [0, 1, 2, 3, 4, 5, 6]},
        {"C0": [0, 1, 2, 3], "C1": [4, 5, 6]},
        {"C0": [0, 1, 2], "C1": [3, 4], "C2": [5, 6]},
    ]
    members += [stage.member("confluent-kafka", f"C{number}", assignor="range") for number in range(3, 8)]
    together(stage, *members)
    assert only_indexes(stage) == {f"C{number}": [number] for number in range(7)} | {"C7": []}
    members.pop(3).leave()
    together(stage, *members)
    assert only_indexes(stage)["C7"] == [6]


def test_more_partitions_make_the_leader_join_again(stage: Stage, family: str) -> None:
    """In some clients, followers also watch the partitions; with kafka-python and Java, only the leader does."""
    members = [stage.joined(family, name) for name in ("leads", "follows")]
    generation, before = stage.generation(), len(rebalances(stage))
    stage.partitions = 9
    grow(stage, stage.topic, stage.partitions)
    together(stage, *members)
    first = rebalances(stage)[before]
    assert "rejoined" in first
    assert stage.generation() > generation
    if family in ("kafka-python", "java"):
        assert first.startswith("leads rejoined")
        assert stage.generation() == generation + 1


@pytest.mark.parametrize("family", ["kafka-python", "java"])
def test_leader_watches_topics_of_followers(stage: Stage, family: str) -> None:
    stage.cluster.create_topic("other", stage.partitions)
    leader = stage.joined(family, "leads")
    stage.topic, stage.other_topics = "other", ["orders"]
    follower = stage.joined(family, "follows")
    before, joined = len(rebalances(stage)), len(stage.cluster.requests("JoinGroup"))
    grow(stage, "other", 7)
    wanted = {"leads": [("orders", index) for index in range(6)], "follows": [("other", index) for index in range(7)]}
    stage.wait("the seventh partition", lambda: stage.shares(stage.generation()) == wanted)
    assert [reason.split(" ")[0] for reason in rebalances(stage)[before:]] == ["leads"]
    assert stage.cluster.requests("JoinGroup")[joined].client_id == leader.name
    stage.wait("to hear of it", lambda: ("other", 6) in follower.assigned[-1])


@of_python
def test_unsubscribing_leaves_the_group_which_shares_out_again(stage: Stage, family: str) -> None:
    stays, goes = stage.joined(family, "stays"), stage.joined(family, "goes")
    stage.wait_held(stays, goes)
    before = len(rebalances(stage))
    goes.unsubscribe()
    together(stage, stays)
    assert [event.client for event in stage.events("leave")] == ["goes"]
    assert rebalances(stage)[before:] == ["goes left"]
    assert not stage.events("expire")
    assert goes._process.poll() is None
    goes.leave()


@pytest.mark.parametrize("family", ["kafka-python", "aiokafka"])
def test_a_heartbeat_every_3_seconds_by_default(family: str) -> None:
    need_client(family)
    if family == "kafka-python":
        from kafka import KafkaConsumer

        assert KafkaConsumer.DEFAULT_CONFIG["heartbeat_interval_ms"] == 3000
    else:
        from aiokafka import AIOKafkaConsumer

        assert inspect.signature(AIOKafkaConsumer).parameters["heartbeat_interval_ms"].default == 3000


@of_python
def test_rolling_change_of_strategy_needs_no_restart(stage: Stage, family: str) -> None:
    """From range to roundrobin: first all members add the new assignor, then they remove the old one."""
    members = [stage.joined(family, name, assignor="range") for name in ("a0", "a1")]
    for names, carried in ((("b0", "b1"), "roundrobin,range"), (("c0", "c1"), "roundrobin")):
        for name in names:
            members.pop(0).leave()
            members.append(stage.joined(family, name, assignor=carried))
    seen: list[str] = []
    for event in stage.events("generation"):
        if not seen or event.protocol != seen[-1]:
            seen.append(event.protocol)
    assert seen == ["range", "roundrobin"]
    assert only_indexes(stage) == {"c0": [0, 2, 4], "c1": [1, 3, 5]}
    stage.check_generations()


def test_the_four_steps_of_an_election(stage: Stage, family: str) -> None:
    """All propose assignors; the coordinator elects leader and assignor, and sends the leader's assignment to all."""
    names = ("first", "second")
    for name in names:
        stage.joined(family, name)
    last = stage.events("generation")[-1]
    stage.wait(
        "all to sync", lambda: {e.client for e in stage.events("sync") if e.generation == last.generation} == {*names}
    )
    requests = [request for request in stage.cluster.requests() if request.body is not None]
    joins = {r.client_id: [p.name for p in r.body.protocols] for r in requests if r.api == "JoinGroup"}
    synced = [r for r in requests if r.api == "SyncGroup" and r.body.generation_id == last.generation]
    assert joins.keys() == set(names)
    assert all(last.protocol in proposed for proposed in joins.values())
    leader = stage.client_of(last.leader)
    planned = {r.client_id: {each.member_id for each in r.body.assignments} for r in synced}
    assert planned == {name: ({stage.member_id(n) for n in names} if name == leader else set()) for name in names}
    first_sync, last_join = synced[0].time_ms, max(r.time_ms for r in requests if r.api == "JoinGroup")
    assert last_join <= last.time_ms <= first_sync
    assert stage.shares(last.generation).keys() == set(names)
