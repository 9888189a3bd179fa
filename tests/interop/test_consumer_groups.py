"""Real clients in groups of the consumer protocol (KIP-848)."""

from __future__ import annotations

from typing import Any

import pytest
from interop.admins import ADMINS
from interop.matrix import CONSUMER_PAIRS
from interop.stage import CONSUMER, LIMIT, MARKS, SERVER_ASSIGNORS, SESSION_MS, Member, Stage

pytestmark = MARKS
families = pytest.mark.parametrize("family", CONSUMER)

VALUES = [f"value-{number}" for number in range(60)]


def join(stage: Stage, family: str, name: str = "", **how: Any) -> Member:
    """Start a member of the consumer protocol, and wait until all members have their assignments."""
    return stage.joined(family, name, protocol="consumer", **how)


def join_together(stage: Stage, *families: str, **how: Any) -> list[Member]:
    """Start several members of the consumer protocol at once, and wait until all members have their assignments."""
    members = [stage.member(family, protocol="consumer", **how) for family in families]
    names = {member.name for member in members}
    stage.wait(f"{len(members)} members with their shares", lambda: stage.stable_with(names), 3 * LIMIT)
    return members


def sizes(stage: Stage) -> list[int]:
    return sorted(len(share) for share in stage.shares(stage.generation()).values())


@pytest.mark.scenario("joins alone (KIP-848)")
@families
def test_joins_alone_and_consumes_everything(consumer_stage: Stage, family: str) -> None:
    stage = consumer_stage
    stage.produce(VALUES)
    member = join(stage, family)
    stage.wait_values(VALUES, member)
    stage.wait_held(member)
    assert stage.cluster.groups()[stage.group].group_type == "consumer"
    member.leave()
    assert stage.events()[-1].event == "empty"
    assert not stage.cluster.requests("JoinGroup")


@pytest.mark.scenario("three join one by one (KIP-848)")
@families
def test_three_join_one_by_one(consumer_stage: Stage, family: str) -> None:
    stage = consumer_stage
    stage.commit_start()
    stage.produce(VALUES)
    members = [join(stage, family) for _ in range(3)]
    assert sizes(stage) == [2, 2, 2]
    stage.wait_held(*members)
    stage.check_owners()
    after = [f"after-{value}" for value in VALUES]
    stage.produce(after)
    stage.wait("each new record", lambda: set(after) <= {value for member in members for value in member.values})
    assert len([value for member in members for value in member.values if value.startswith("after")]) == len(after)


@pytest.mark.scenario("commits and resumes (KIP-848)")
@families
def test_commits_and_resumes(consumer_stage: Stage, family: str) -> None:
    stage = consumer_stage
    stage.produce(VALUES)
    first = join(stage, family)
    stage.wait_values(VALUES, first)
    first.commit()
    first.leave()
    assert stage.cluster.committed(stage.group) == dict.fromkeys(stage.all_partitions(), 10)
    more = [f"more-{number}" for number in range(12)]
    stage.produce(more)
    second = join(stage, family)
    stage.wait_values(more, second)
    assert {offset for _, _, offset, _ in second.records} == {10, 11}


@pytest.mark.scenario("leaves, and its partitions are reassigned at once (KIP-848)")
@families
def test_leaving_member_is_replaced_at_once(consumer_stage: Stage, family: str) -> None:
    stage = consumer_stage
    stays, leaves = join_together(stage, family, family)
    leaves.leave()
    left = stage.wait("the leaving", lambda: stage.events("leave"))[0]
    stage.wait_stable({stays.name})
    stage.wait_held(stays)
    assert left.client == leaves.name
    assert stage.events("assign")[-1].time_ms - left.time_ms < SESSION_MS / 2
    assert not stage.events("expire")
    stage.check_owners()


@pytest.mark.scenario("is killed, and is evicted (KIP-848)")
@families
def test_killed_member_is_evicted(impatient_stage: Stage, family: str) -> None:
    stage = impatient_stage
    stage.commit_start()
    survivor, victim = join_together(stage, family, family, own_process=True)
    lost = stage.shares(stage.generation())[victim.name]
    victim.kill()
    stage.wait_stable({survivor.name})
    (expired,) = stage.events("expire")
    assert (expired.client, expired.reason) == (victim.name, "no heartbeat within the session timeout")
    assert not stage.events("leave")
    stage.check_owners()
    last_words = "after the death"
    for topic, partition in lost:
        stage.cluster.produce(topic, [last_words], partition=partition)
    stage.wait("the lost partitions", lambda: survivor.values.count(last_words) == len(lost), LIMIT)


@pytest.mark.scenario("{assignor} (server)")
@pytest.mark.parametrize("assignor", SERVER_ASSIGNORS)
@families
def test_assignor(consumer_stage: Stage, family: str, assignor: str) -> None:
    """With a second topic, the assignors differ: range assigns the same partition numbers of both topics."""
    stage = consumer_stage
    stage.cluster.create_topic("ordinary", stage.partitions)
    stage.other_topics = ["ordinary"]
    members = join_together(stage, family, family, assignor=assignor, regex="^ord.*")
    stage.wait_held(*members)
    assert {event.protocol for event in stage.events("generation")} == {assignor}
    assert sizes(stage) == [6, 6]
    if assignor == "range":
        shares = stage.shares(stage.generation()).values()
        assert sorted([index for _, index in share] for share in shares) == [[0, 1, 2, 0, 1, 2], [3, 4, 5, 3, 4, 5]]


@pytest.mark.scenario("static member restarts without a new epoch")
@pytest.mark.parametrize("family", [family for family in CONSUMER if family != "franz-go"])
def test_a_static_member_restarts(consumer_stage: Stage, family: str) -> None:
    stage = consumer_stage
    stays = join(stage, family, "stays", instance="one")
    before = join(stage, family, "restarts", instance="two")
    stage.wait_held(stays, before)
    epoch = stage.generation()
    shares, old_id, count = stage.shares(epoch), stage.member_id("restarts"), len(stays.assigned)
    before.leave()
    assert [event.client for event in stage.events("away")] == ["restarts"]
    after = stage.member(family, "restarts", instance="two", protocol="consumer")
    stage.wait("its share again", lambda: sorted(after.held) == shares["restarts"])
    assert stage.member_id("restarts") != old_id
    assert max(event.generation for event in stage.events("rebalance")) == epoch
    assert not stage.events("leave") + stage.events("expire")
    assert len(stays.assigned) == count
    stage.check_owners()


@pytest.mark.scenario("second static member with the same id is refused")
@families
def test_of_two_with_one_instance_the_second_is_refused(consumer_stage: Stage, family: str) -> None:
    """The second member gets UNRELEASED_INSTANCE_ID; with the classic protocol, the first would be fenced."""
    stage = consumer_stage
    first = join(stage, family, "first", instance="one")
    epoch = stage.generation()
    second = stage.member(family, "second", instance="one", protocol="consumer")
    stage.wait("the second to hear that it is refused", lambda: second.refused)
    assert not first.fenced
    assert stage.generation() == epoch
    stage.produce(VALUES)
    stage.wait_values(VALUES, first, second)


@pytest.mark.scenario("subscribes by a regular expression")
@families
def test_subscription_by_a_regular_expression(consumer_stage: Stage, family: str) -> None:
    stage = consumer_stage
    for name in ("ordinary", "border"):
        stage.cluster.create_topic(name, stage.partitions)
    stage.other_topics = ["ordinary"]
    stage.produce(VALUES)
    member = join(stage, family, regex="^ord.*")
    stage.wait_values(VALUES, member)
    stage.wait_held(member)
    requested = [request.body.subscribed_topic_regex for request in stage.cluster.requests("ConsumerGroupHeartbeat")]
    assert any(requested), "it is the broker that matches"


@pytest.mark.scenario("topic grows while subscribed")
@families
def test_topic_grows(consumer_stage: Stage, family: str) -> None:
    stage = consumer_stage
    member = join(stage, family)
    epoch = stage.generation()
    stage.partitions = 9
    ADMINS["confluent-kafka"](stage.cluster.bootstrap_servers).create_partitions(stage.topic, stage.partitions)
    stage.wait_stable({member.name})
    stage.wait_held(member)
    assert stage.generation() == epoch + 1
    stage.produce(VALUES)
    stage.wait_values(VALUES, member)


@pytest.mark.scenario("shares a group (KIP-848)")
@pytest.mark.parametrize(("leads", "follows", "assignor"), CONSUMER_PAIRS)
def test_two_families_share_a_group(consumer_stage: Stage, leads: str, follows: str, assignor: str) -> None:
    stage = consumer_stage
    stage.produce(VALUES)
    first = join(stage, leads, assignor=assignor)
    second = join(stage, follows, assignor=assignor)
    assert sizes(stage) == [3, 3]
    stage.wait_held(first, second)
    stage.check_owners()
    stage.wait("every record", lambda: set(first.values + second.values) == set(VALUES))


@pytest.mark.clients("confluent-kafka", "franz-go")
def test_twenty_members_of_two_families(consumer_stage: Stage) -> None:
    stage = consumer_stage
    stage.topic, stage.partitions = "wide", 50
    stage.cluster.create_topic(stage.topic, stage.partitions)
    members = join_together(stage, *("confluent-kafka", "franz-go") * 10)
    assert sizes(stage) == [2] * 10 + [3] * 10
    stage.wait_held(*members)
    stage.check_owners()
    stage.produce(VALUES)
    stage.wait_values(VALUES, *members)
