"""A coordinator that is made of records goes on where the last one stopped."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis.stateful import invariant, rule, run_state_machine_as_test
from tools.desk import Desk, commit_simple, committed, member

from kwire import ErrorCode as E
from kwire.blobs import decode_record
from kwire.blobs.offsets_topic import ConsumerGroupMetadataValue
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.leave_group import LeaveGroupRequest
from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.records.batch import batches
from mockbroker.durable import consumer_records, rebuild
from mockbroker.durable.clock import Wall
from mockbroker.durable.image import Image, changes, image_of
from mockbroker.durable.rebuild import rebuilt, replayed
from mockbroker.group.state import State
from tests.mockbroker.group.test_consumer_machine import HUNT, QUICK, ConsumerMachine

WALL = Wall(1_700_000_000.0)
LOGS = Path(__file__).parents[3] / "fixtures" / "logs"


class Keeper:
    """Writes down what steps change in a group, as a coordinator would, and makes groups of it again."""

    def __init__(self, desk: Desk, group_id: str = "g") -> None:
        self.desk = desk
        self.group_id = group_id
        self.image: Image = {}
        self.log: list[tuple[bytes, bytes | None]] = []

    def write(self) -> None:
        group = self.desk.broker.groups.get(self.group_id)
        now = {} if group is None else image_of(group, self.image, WALL)
        self.log += changes(self.image, now)
        self.image = now

    def fail_over(self) -> None:
        """The group is gone from memory, and another coordinator reads the log."""
        broker = self.desk.broker
        live = replayed(self.log)
        assert live == self.image
        if self.group_id in broker.groups:
            broker.groups.drop(self.group_id)
        for group_id, group in rebuilt(live, broker.cluster, broker.settings, WALL, self.desk.now).items():
            broker.groups[group_id] = group
            broker.waits.set(group_id, group.waits.next())
            assert told(image_of(group, live, WALL)) == told(live)


def told(image: Image) -> dict[object, object]:
    """Decoded. What a group knew of its topics may have changed meanwhile; the next heartbeat sees to it."""
    found = [decode_record("__consumer_offsets", *item) for item in image.items()]
    return {
        repr(key): replace(value, metadata_hash=0) if isinstance(value, ConsumerGroupMetadataValue) else value
        for key, value in found
    }


class FailingOver(ConsumerMachine):
    """The same stories, with coordinators that fail between any two steps."""

    @rule()
    def fail_over(self):
        self.keeper.fail_over()

    @invariant()
    def everything_is_written(self):
        if hasattr(self, "desk"):
            if not hasattr(self, "keeper"):
                self.keeper = Keeper(self.desk)
            self.keeper.write()


def test_consumer_groups():
    run_state_machine_as_test(FailingOver, settings=QUICK)


def forget_what_is_to_be_given_up(patch):
    patch.setattr(rebuild, "_share", lambda lines: frozenset() if len(lines) == 1 else real(lines))
    real = rebuild._share


def a_target_is_lost(patch):
    real = consumer_records.records

    def records(group, wall):
        return (each for each in real(group, wall) if not isinstance(each[1], consumer_records.Target))

    patch.setattr(consumer_records, "records", records)


def tombstones_are_forgotten(patch):
    real = changes
    patch.setattr(sys.modules[__name__], "changes", lambda before, after: [c for c in real(before, after) if c[1]])


@pytest.mark.parametrize(
    "plant",
    [forget_what_is_to_be_given_up, a_target_is_lost, tombstones_are_forgotten],
    ids=lambda plant: plant.__name__,
)
def test_the_stories_catch(monkeypatch, plant):
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(FailingOver, settings=HUNT)


# --- classic groups -----------------------------------------------------------------------------------------------


def beat(desk: Desk, member_id: str, generation: int) -> E:
    asked = HeartbeatRequest(group_id="g", generation_id=generation, member_id=member_id)
    return E(desk.ask(asked, 3).error_code)


def test_a_stable_group_goes_on():
    desk, keeper = kept()
    member_id = member(desk, "g", metadata=b"what it said", assignment=b"its share", instance_id="i")
    commit_simple_of(desk, member_id)
    keeper.write()
    before = desk.broker.groups["g"]
    keeper.fail_over()
    after = desk.broker.groups["g"]
    assert after is not before
    assert (after.state, after.generation, after.leader) == (State.STABLE, before.generation, member_id)
    assert after.members[member_id].assignment == b"its share"
    assert after.members[member_id].protocols == [("range", b"what it said")]
    assert after.static == {"i": member_id}
    assert committed(desk, "g") == {("t", 0): 5}
    assert beat(desk, member_id, 1) == E.NONE


def test_sessions_begin_anew():
    desk, keeper = kept()
    member_id = member(desk, "g")
    keeper.write()
    desk.wait(9.0)
    keeper.fail_over()
    desk.wait(9.0)
    assert beat(desk, member_id, 1) == E.NONE
    desk.wait(10.1)
    assert desk.broker.groups["g"].empty


def test_a_rebalance_in_progress_is_forgotten():
    desk, keeper = kept()
    member_id = member(desk, "g")
    keeper.write()
    desk.send(Desk.join("g"), 3)
    assert desk.broker.groups["g"].state is State.PREPARING
    keeper.write()
    keeper.fail_over()
    assert desk.broker.groups["g"].state is State.STABLE
    assert beat(desk, member_id, 1) == E.NONE


def test_what_is_gone_stays_gone():
    desk, keeper = kept()
    member_id = member(desk, "g")
    commit_simple_of(desk, member_id)
    keeper.write()
    desk.ask(LeaveGroupRequest(group_id="g", members=[LeaveGroupRequest.Member(member_id=member_id)]), 3)
    keeper.write()
    keeper.fail_over()
    group = desk.broker.groups["g"]
    assert (group.state, group.generation, group.members) == (State.EMPTY, 2, {})
    desk.broker.groups.drop("g")
    keeper.write()
    keeper.fail_over()
    assert "g" not in desk.broker.groups
    assert {value for _, value in keeper.log[-2:]} == {None}


def test_offsets_of_nobody_in_particular():
    desk, keeper = kept()
    commit_simple(desk, "g")
    keeper.write()
    keeper.fail_over()
    assert committed(desk, "g") == {("t", 0): 5}


def kept() -> tuple[Desk, Keeper]:
    desk = Desk()
    return desk, Keeper(desk)


def commit_simple_of(desk: Desk, member_id: str) -> None:
    place = OffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=5)
    topics = [OffsetCommitRequest.Topic(name="t", partitions=[place])]
    asked = OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=1, member_id=member_id, topics=topics)
    assert desk.ask(asked, 5).topics[0].partitions[0].error_code == E.NONE


# --- records of a real coordinator --------------------------------------------------------------------------------


def test_records_of_kafka():
    data = (LOGS / "__consumer_offsets.log").read_bytes()
    log = [(record.key, record.value) for batch in batches(data) if not batch.control for record in batch.records()]
    live = replayed(log)
    desk = Desk()
    groups = rebuilt(live, desk.broker.cluster, desk.broker.settings, WALL, 0.0)
    assert {"g-classic", "g-consumer"} <= set(groups)
    classic = groups["g-classic"]
    assert (classic.state, classic.generation, classic.protocol_type) == (State.EMPTY, 2, "consumer")
    assert {place: each.offset for place, each in classic.offsets.committed.items()} == {("t", 1): 7}
