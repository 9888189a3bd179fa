"""Real clients in consumer groups: they join, consume, commit, leave or are killed."""

from __future__ import annotations

import pytest
from effort import usual_and_long
from interop.adapters import ADAPTERS
from interop.matrix import PAIRS
from interop.raw import Connection
from interop.stage import ASSIGNORS, FAMILIES, LIMIT, MARKS, SESSION_MS, Stage

from kwire.messages.heartbeat import HeartbeatRequest

EVERY = [(family, assignor) for family in FAMILIES for assignor in ASSIGNORS[family]]
IN_TURN = [
    (family, ASSIGNORS[family][-1 - number % 2]) for number, family in enumerate(FAMILIES)
]  # other clients use the first assignor
pytestmark = MARKS

FENCED_INSTANCE_ID = 82
VALUES = [f"value-{number}" for number in range(60)]


def produce(stage: Stage, family: str, values: list[str] = VALUES) -> None:
    """Spread the values over all partitions, with a client of this family."""
    by_partition = {index: values[index :: stage.partitions] for index in range(stage.partitions)}
    ADAPTERS[family](stage.cluster.bootstrap_servers).produce(stage.topic, by_partition)


@pytest.mark.scenario("joins alone")
def test_joins_alone_and_consumes_everything(stage: Stage, family: str) -> None:
    produce(stage, family)
    member = stage.joined(family)
    assert stage.shares(stage.generation()) == {member.name: stage.all_partitions()}
    stage.wait_values(VALUES, member)
    assert member.assigned[-1] == stage.all_partitions()
    stage.check_generations()
    member.leave()
    assert stage.events()[-1].event == "empty"


@pytest.mark.scenario("three join one by one")
def test_three_join_one_by_one(stage: Stage, family: str) -> None:
    produce(stage, family)
    members = [stage.joined(family) for _ in range(3)]
    assert stage.check_generations() >= 3
    assert [len(share) for share in stage.shares(stage.generation()).values()] == [2, 2, 2]
    owners = stage.shares(stage.generation())
    for member in members:
        stage.wait(
            f"{member.name} to hear of its share",
            lambda member=member: member.assigned and member.assigned[-1] == owners[member.name],
        )


@pytest.mark.scenario("{assignor}")
@pytest.mark.parametrize(
    ("family", "assignor"), usual_and_long(IN_TURN, [each for each in EVERY if each not in IN_TURN])
)
def test_assignor(stage: Stage, family: str, assignor: str) -> None:
    for _ in range(2):
        stage.joined(family, assignor=assignor)
    stage.check_generations()
    assert {event.protocol for event in stage.events("generation")} == {assignor}
    assert [len(share) for share in stage.shares(stage.generation()).values()] == [3, 3]


@pytest.mark.scenario("shares a group")
@pytest.mark.parametrize(("leads", "follows", "assignor"), usual_and_long(PAIRS[::2], PAIRS[1::2]))
def test_two_families_share_a_group(stage: Stage, leads: str, follows: str, assignor: str) -> None:
    produce(stage, leads)
    first = stage.joined(leads, assignor=assignor)
    second = stage.joined(follows, assignor=assignor)
    stage.check_generations()
    assert [len(share) for share in stage.shares(stage.generation()).values()] == [3, 3]
    assert stage.events("generation")[-1].leader.startswith(first.name)
    stage.wait("every record", lambda: set(first.values + second.values) == set(VALUES))


@pytest.mark.scenario("more members than partitions")
def test_more_members_than_partitions(stage: Stage, family: str) -> None:
    stage.topic, stage.partitions = "narrow", 2
    ADAPTERS["kafka-python"](stage.cluster.bootstrap_servers).create_topic(stage.topic, stage.partitions)
    members = [stage.joined(family) for _ in range(3)]
    stage.check_generations()
    assert sorted(len(share) for share in stage.shares(stage.generation()).values()) == [0, 1, 1]
    produce(stage, family)
    stage.wait_values(VALUES, *members)


@pytest.mark.scenario("commits and resumes")
def test_commits_and_resumes(stage: Stage, family: str) -> None:
    produce(stage, family)
    first = stage.joined(family)
    stage.wait_values(VALUES, first)
    first.commit()
    first.leave()
    more = [f"more-{number}" for number in range(12)]
    produce(stage, family, more)
    second = stage.joined(family)
    stage.wait_values(more, second)
    assert {offset for _, _, offset, _ in second.records} == {10, 11}


@pytest.mark.scenario("leaves, and its partitions are reassigned at once")
def test_leaving_member_is_replaced_at_once(stage: Stage, family: str) -> None:
    stays, leaves = stage.joined(family), stage.joined(family)
    leaves.leave()
    left = stage.wait("the leaving", lambda: stage.events("leave"))[0]
    stage.wait_stable({stays.name})
    assert left.client == leaves.name
    assert stage.events("assign")[-1].time_ms - left.time_ms < SESSION_MS / 2
    assert not stage.events("expire")
    stage.check_generations()


@pytest.mark.scenario("is killed, and is evicted")
def test_killed_member_is_evicted(stage: Stage, family: str) -> None:
    produce(stage, family)
    survivors = [stage.joined(family), stage.joined(family)]
    victim = stage.joined(family, own_process=True)
    victim.kill()
    stage.wait_stable({member.name for member in survivors})
    (expired,) = stage.events("expire")
    assert (expired.client, expired.reason) == (victim.name, f"no heartbeat for {SESSION_MS / 1000:g} s")
    assert not stage.events("leave")
    stage.check_generations()
    last_words = "after the death"
    lost = stage.shares(stage.generation() - 1)[victim.name]
    ADAPTERS[family](stage.cluster.bootstrap_servers).produce(stage.topic, {index: [last_words] for _, index in lost})
    stage.wait("the lost partitions", lambda: sum(m.values.count(last_words) for m in survivors) == len(lost), LIMIT)


STATIC = tuple(family for family in FAMILIES if family != "kafkajs")
FENCED = tuple(family for family in STATIC if family != "aiokafka")


@pytest.mark.scenario("static member restarts without rebalance")
@pytest.mark.parametrize("family", STATIC)
def test_a_static_member_restarts(stage: Stage, family: str) -> None:
    """Within its session it gets its assignment back, without a rebalance; the old member id is fenced."""
    stays = stage.joined(family, "stays", instance="one")
    before = stage.joined(family, "restarts", instance="two")
    generation = stage.generation()
    shares, old_id = stage.shares(generation), stage.member_id("restarts")
    for member in (stays, before):
        stage.wait("its share", lambda member=member: shares[member.name] in member.assigned)
    count = len(stays.assigned)
    before.leave()
    after = stage.member(family, "restarts", instance="two")
    stage.wait("its share again", lambda: after.assigned)
    assert after.assigned == [shares["restarts"]]
    assert stage.member_id("restarts") != old_id
    assert stage.generation() == generation
    assert not stage.events("leave") + stage.events("expire")
    assert len(stays.assigned) == count
    who = {"generation_id": generation, "member_id": old_id, "group_instance_id": "two"}
    with Connection(stage.cluster) as broker:
        assert broker.ask(HeartbeatRequest(group_id=stage.group, **who), 4).error_code == FENCED_INSTANCE_ID


@pytest.mark.scenario("static member is fenced by a second one with its id")
@pytest.mark.parametrize("family", FENCED)
def test_of_two_with_one_instance_the_first_is_fenced(stage: Stage, family: str) -> None:
    first = stage.joined(family, "first", instance="one")
    stage.wait("its share", lambda: first.assigned)
    generation = stage.generation()
    second = stage.member(family, "second", instance="one")
    stage.wait("its share", lambda: second.assigned)
    stage.wait("the first to hear that it is fenced", lambda: first.fenced)
    assert stage.generation() == generation
