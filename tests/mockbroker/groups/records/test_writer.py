"""A coordinator that loads its groups from records continues where the last one stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis.stateful import invariant, rule, run_state_machine_as_test
from tools.broker_harness import WALL, BrokerHarness, commit_without_member, committed, stable_member
from tools.consumer_group_harness import ConsumerGroupHarness
from tools.group_records_check import check_group_records
from tools.producer import Producer

from kwire import ErrorCode as E
from kwire.blobs import decode_record, decode_stored, encode_stored
from kwire.blobs.offsets_topic import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from kwire.errors import DecodeError
from kwire.messages.delete_groups import DeleteGroupsRequest
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.leave_group import LeaveGroupRequest
from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.records.batch import batches
from kwire.schema import ZERO_UUID
from mockbroker.base.release import RELEASES
from mockbroker.groups.classic.state import State
from mockbroker.groups.consumer import records as consumer_records
from mockbroker.groups.consumer.state import (
    ClassicMemberMetadata,
    ConsumerGroup,
    ConsumerMember,
)
from mockbroker.groups.coordinated import CoordinatedGroup
from mockbroker.groups.group_types import GROUP_TYPES
from mockbroker.groups.offsets import Committed
from mockbroker.groups.records import writer
from mockbroker.groups.records.offsets import decode_value, encode_value
from mockbroker.groups.records.rebuild import groups_from_records
from mockbroker.groups.records.replay import Replay, StoredValue, replay_log
from mockbroker.groups.records.wall_time import WallClock
from tests.mockbroker.groups.consumer.test_stateful import HUNT, QUICK, ConsumerMachine

LOGS = Path(__file__).parents[4] / "fixtures" / "logs"


class Coordinators:
    """The failover of a group between coordinators."""

    def __init__(self, harness: BrokerHarness, group_id: str = "g") -> None:
        self.harness = harness
        self.group_id = group_id

    def fail_over(self) -> None:
        """Unload the group and load it again from the log."""
        broker = self.harness.broker
        partition = broker.cluster.topics["__consumer_offsets"].partition_of(self.group_id)
        for group in broker.groups_of(partition.index):
            broker.unload_group(group.group_id)
        broker.load_groups(partition.index, self.harness.now)
        check_group_records(broker, WALL)


class FailingOver(ConsumerMachine):
    """The consumer machine with failovers between any two steps."""

    @rule()
    def fail_over(self) -> None:
        self.coordinators.fail_over()

    @invariant()
    def everything_is_written(self) -> None:
        if hasattr(self, "harness"):
            if not hasattr(self, "coordinators"):
                self.coordinators = Coordinators(self.harness)
            check_group_records(self.harness.broker, WALL)


def test_consumer_groups_with_failovers():
    run_state_machine_as_test(FailingOver, settings=QUICK)


def single_partitions_are_not_loaded(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(consumer_records, "_partition_set", lambda lines: frozenset() if len(lines) == 1 else real(lines))
    real = consumer_records._partition_set


def tombstones_are_not_written(patch: pytest.MonkeyPatch) -> None:
    for module in (writer, consumer_records):
        patch.setattr(module, "tombstones", lambda _: [])


def epochs_are_not_written(patch: pytest.MonkeyPatch) -> None:
    real = writer.apply_changes
    kind = consumer_records.encode_stored(ConsumerGroupMetadataKey(), 0)[:2]
    patch.setattr(writer, "apply_changes", lambda image, found: (c for c in real(image, found) if c[0][:2] != kind))


@pytest.mark.parametrize(
    "plant",
    [single_partitions_are_not_loaded, tombstones_are_not_written, epochs_are_not_written],
    ids=lambda plant: plant.__name__,
)
def test_the_machine_catches(monkeypatch, plant):
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(FailingOver, settings=HUNT)


# --- classic groups -----------------------------------------------------------------------------------------------


def beat(harness: BrokerHarness, member_id: str, generation: int) -> E:
    request = HeartbeatRequest(group_id="g", generation_id=generation, member_id=member_id)
    return E(harness.ask(request, 3).error_code)


def test_a_stable_group_survives_a_failover():
    harness, coordinators = new_coordinators()
    member_id = stable_member(harness, "g", metadata=b"what it said", assignment=b"its share", instance_id="i")
    commit_simple_of(harness, member_id)
    before = harness.broker.groups["g"]
    coordinators.fail_over()
    after = harness.broker.groups["g"]
    assert after is not before
    assert (after.state, after.generation, after.leader) == (State.STABLE, before.generation, member_id)
    assert after.members[member_id].assignment == b"its share"
    assert after.members[member_id].protocols == [("range", b"what it said")]
    assert after.static_members == {"i": member_id}
    assert committed(harness, "g") == {("t", 0): 5}
    assert beat(harness, member_id, 1) == E.NONE


@pytest.mark.parametrize("ended", [False, True])
def test_deleting_a_group_deletes_transactional_offsets(ended):
    harness, coordinators = new_coordinators()
    producer = Producer(harness, "p")
    assert (producer.init(), producer.commit("g", 7)) == (E.NONE, E.NONE)
    if ended:
        assert producer.end(committed=True) == E.NONE
    assert harness.ask(DeleteGroupsRequest(groups_names=["g"]), 2).results[0].error_code == E.NONE
    commit_without_member(harness, "other")  # so that the log is not empty
    coordinators.fail_over()
    assert producer.end(committed=True) == E.NONE
    coordinators.fail_over()
    assert committed(harness, "g") == {}


def test_transactional_offsets_expire():
    harness, coordinators = new_coordinators()
    producer = Producer(harness, "p")
    assert (producer.init(), producer.commit("g", 7), producer.end(committed=True)) == (E.NONE, E.NONE, E.NONE)
    commit_without_member(harness, "other")  # so that the log is not empty
    harness.now += harness.broker.settings.offsets_retention_minutes * 60.0 + 1.0
    harness.router.finish(harness.broker.groups.delete_expired_offsets(harness.now), harness.now)
    assert "g" not in harness.broker.groups
    coordinators.fail_over()
    assert committed(harness, "g") == {}


@pytest.mark.parametrize("version", [3, 5])
def test_a_group_has_a_record_since_its_first_join(version):
    harness, coordinators = new_coordinators()
    joining = harness.send(BrokerHarness.join("g"), version)
    assert joining.answer.error_code == (E.MEMBER_ID_REQUIRED if version > 3 else E.NONE)
    coordinators.fail_over()
    group = harness.broker.groups["g"]
    assert (group.state, group.generation, group.protocol_type, group.members) == (State.EMPTY, 0, "", {})
    stable_member(harness, "g")
    coordinators.fail_over()
    assert harness.broker.groups["g"].generation == 1


def test_a_group_that_never_had_members_can_be_deleted():
    harness, coordinators = new_coordinators()
    harness.send(BrokerHarness.join("g"), 5)
    commit_without_member(harness, "other")
    coordinators.fail_over()
    assert harness.ask(DeleteGroupsRequest(groups_names=["g"]), 2).results[0].error_code == E.NONE
    coordinators.fail_over()
    assert "g" not in harness.broker.groups


@pytest.mark.parametrize(
    ("release", "last"), [("4.2", GroupMetadataKey(group="g")), ("3.9", OffsetCommitKey(group="g", topic="t"))]
)
def test_tombstone_of_a_group_without_members(release, last):
    harness = BrokerHarness(release=RELEASES[release])
    commit_without_member(harness, "g")
    assert harness.ask(DeleteGroupsRequest(groups_names=["g"]), 2).results[0].error_code == E.NONE
    partition = harness.broker.cluster.topics["__consumer_offsets"].partition_of("g")
    *_, record = (record for batch in partition.log.batches() for record in batch.records())
    assert (record.key, record.value) == (encode_stored(last, 0), None)


def state_timestamps(harness: BrokerHarness, group_id: str) -> list[int]:
    """Return ``currentStateTimestamp`` of all records of a group, in milliseconds since 1970."""
    partition = harness.broker.cluster.topics["__consumer_offsets"].partition_of(group_id)
    key = encode_stored(GroupMetadataKey(group=group_id), 0)
    records = [record for batch in partition.log.batches() for record in batch.records() if record.key == key]
    return [decode_stored(GroupMetadataValue, record.value or b"")[0].current_state_timestamp for record in records]


def test_new_group_is_empty_since_its_creation():
    harness, coordinators = new_coordinators()
    harness.wait(100.0)
    harness.send(BrokerHarness.join("joined"), 5)
    commit_without_member(harness, "g")
    assert state_timestamps(harness, "joined") == [round((WALL + 100.0) * 1000)]
    assert harness.broker.groups["g"].state_since == 100.0
    harness.wait(50.0)
    coordinators.fail_over()
    assert harness.broker.groups["g"].state_since == 150.0  # the group has no record, only offsets


def test_scala_coordinator_writes_no_group_before_stable():
    harness = BrokerHarness(release=RELEASES["3.9"])
    harness.send(BrokerHarness.join("g"), 5)
    partition = harness.broker.cluster.topics["__consumer_offsets"].partition_of("g")
    assert partition.log.end == 0


def test_sessions_restart_after_a_failover():
    harness, coordinators = new_coordinators()
    member_id = stable_member(harness, "g")
    harness.wait(9.0)
    coordinators.fail_over()
    harness.wait(9.0)
    assert beat(harness, member_id, 1) == E.NONE
    harness.wait(10.1)
    assert harness.broker.groups["g"].empty


def test_a_rebalance_in_progress_is_lost_by_a_failover():
    harness, coordinators = new_coordinators()
    member_id = stable_member(harness, "g")
    harness.send(BrokerHarness.join("g"), 3)
    assert harness.broker.groups["g"].state is State.PREPARING
    coordinators.fail_over()
    assert harness.broker.groups["g"].state is State.STABLE
    assert beat(harness, member_id, 1) == E.NONE


def test_removed_members_and_groups_stay_removed():
    harness, coordinators = new_coordinators()
    member_id = stable_member(harness, "g")
    commit_simple_of(harness, member_id)
    harness.ask(LeaveGroupRequest(group_id="g", members=[LeaveGroupRequest.Member(member_id=member_id)]), 3)
    coordinators.fail_over()
    group = harness.broker.groups["g"]
    assert (group.state, group.generation, group.members) == (State.EMPTY, 2, {})
    assert harness.ask(DeleteGroupsRequest(groups_names=["g"]), 2).results[0].error_code == E.NONE
    coordinators.fail_over()
    assert "g" not in harness.broker.groups


def test_offsets_without_a_member_survive_a_failover():
    harness, coordinators = new_coordinators()
    commit_without_member(harness, "g")
    coordinators.fail_over()
    assert committed(harness, "g") == {("t", 0): 5}


def new_coordinators() -> tuple[BrokerHarness, Coordinators]:
    harness = BrokerHarness()
    return harness, Coordinators(harness)


def commit_simple_of(harness: BrokerHarness, member_id: str) -> None:
    place = OffsetCommitRequest.Topic.Partition(partition_index=0, committed_offset=5)
    topics = [OffsetCommitRequest.Topic(name="t", partitions=[place])]
    request = OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=1, member_id=member_id, topics=topics)
    assert harness.ask(request, 5).topics[0].partitions[0].error_code == E.NONE


def test_member_without_regex_is_written_with_an_empty_one():
    """Kafka's ConsumerGroupDescribe would return null for a null in the record."""
    result = consumer_records.member_record(ConsumerGroup(group_id="g"), ConsumerMember(member_id="m"))
    assert result[1].subscribed_topic_regex == ""


# --- changes of a group -------------------------------------------------------------------------------------------


def written_records(harness: BrokerHarness, group_id: str = "g") -> list[tuple[object, bool]]:
    """Return the decoded key of each record in the partition of a group, and whether its value is not null."""
    partition = harness.broker.cluster.topics["__consumer_offsets"].partition_of(group_id)
    records = (record for batch in partition.log.batches() for record in batch.records())
    return [(decode_record("__consumer_offsets", r.key, r.value)[0], r.value is not None) for r in records]


def test_offsets_that_a_new_table_lacks_are_deleted():
    harness = BrokerHarness(topics={"t": 1, "u": 1})
    for topic in ("t", "u"):
        commit_without_member(harness, "g", topic=topic)
    group = harness.broker.groups["g"]
    for _ in range(2):  # first with known keys, then with unknown keys after a load
        group.offsets = group.offsets.copy()
        group.offsets.delete("t", 0)
        group.offsets.unwritten.clear()
        harness.broker.record_writer.write("g", group, harness.now)
        replayed = replay_log(
            harness.broker.cluster.topics["__consumer_offsets"].partition_of("g").log.batches()
        ).values
        assert encode_stored(OffsetCommitKey(group="g", topic="t"), 0) not in replayed
        assert encode_stored(OffsetCommitKey(group="g", topic="u"), 0) in replayed
        commit_without_member(harness, "g", topic="t")
        harness.broker.record_writer.adopt(group)


def test_deleted_group_is_written_once():
    harness = BrokerHarness()
    commit_without_member(harness, "g")
    record_writer = harness.broker.record_writer
    assert record_writer.write("g", None, harness.now) is not None
    assert record_writer.write("g", None, harness.now) is None


def test_changes_have_no_producer():
    harness = BrokerHarness()
    commit_without_member(harness, "g")
    *_, batch = harness.broker.cluster.topics["__consumer_offsets"].partition_of("g").log.batches()
    assert (batch.transactional, batch.producer_id, batch.producer_epoch, batch.base_sequence) == (False, -1, -1, 0)


@pytest.mark.parametrize("producer_id", [0, 7])
def test_offsets_of_a_transaction_have_its_producer(producer_id: int):
    harness = BrokerHarness()
    commit_without_member(harness, "g")
    group = harness.broker.groups["g"]
    group.offsets.store_transactional(producer_id, 3, "t", 1, Committed(offset=9, at=0.0))
    partition = harness.broker.record_writer.write("g", group, harness.now)
    assert partition is not None
    *_, batch = partition.log.batches()
    assert (batch.transactional, batch.producer_id, batch.producer_epoch) == (True, producer_id, 3)
    assert batch.base_sequence == 0


TOPIC_ID = UUID(int=9)


@pytest.mark.parametrize(
    ("version", "expires", "expected"),
    [(4, None, (4, 3, TOPIC_ID)), (3, None, (3, 3, ZERO_UUID)), (4, 7.0, (1, -1, ZERO_UUID))],
)
def test_offset_is_encoded_in_its_version(version: int, expires: float | None, expected: tuple[Any, ...]):
    wall = WallClock(WALL)
    offset = Committed(offset=5, leader_epoch=3, metadata="m", at=2.0, expires=expires, topic_id=TOPIC_ID)
    value, found = decode_stored(OffsetCommitValue, encode_value(offset, wall, version))
    assert (found, value.leader_epoch, value.topic_id) == expected
    assert (value.offset, value.metadata, value.commit_timestamp) == (5, "m", wall.to_ms(2.0))
    assert decode_value(value, wall).expires == expires


# --- records of a Kafka broker ------------------------------------------------------------------------------------


def read(*entries: tuple[object, object]) -> CoordinatedGroup:
    replay = Replay()
    for log_offset, (key, value) in enumerate(entries):
        replay.latest[encode_stored(key, 0)] = StoredValue(encode_stored(value, 0), log_offset)
    harness = BrokerHarness()
    group = groups_from_records(replay, GROUP_TYPES, harness.broker.groups.context, WallClock(WALL), 0.0)["g"]
    harness.broker.record_writer.adopt(group)
    assert not group.has_unwritten_changes
    return group


def test_an_unknown_member_state_is_an_error():
    with pytest.raises(DecodeError, match=r"member m has the invalid state 77: expected 0 to 2"):
        read(
            (ConsumerGroupMetadataKey(group_id="g"), ConsumerGroupMetadataValue(epoch=1)),
            (ConsumerGroupMemberMetadataKey(group_id="g", member_id="m"), ConsumerGroupMemberMetadataValue()),
            (
                ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="m"),
                ConsumerGroupCurrentMemberAssignmentValue(state=77),
            ),
        )


def test_a_stable_record_without_protocol_is_loaded():
    value = GroupMetadataValue(protocol=None, leader=None, members=[GroupMetadataValue.Member(member_id="m")])
    group = read((GroupMetadataKey(group="g"), value))
    assert (group.state, group.protocol, list(group.members)) == (State.STABLE, "", ["m"])


def test_records_of_a_kafka_broker():
    data = (LOGS / "__consumer_offsets.log").read_bytes()
    harness = BrokerHarness()
    groups = groups_from_records(
        replay_log(batches(data)), GROUP_TYPES, harness.broker.groups.context, WallClock(WALL), 0.0
    )
    assert {"g-classic", "g-consumer"} <= set(groups)
    classic = groups["g-classic"]
    assert (classic.state, classic.generation, classic.protocol_type) == (State.EMPTY, 2, "consumer")
    assert {place: each.offset for place, each in classic.offsets.committed.items()} == {("t", 1): 7}


def test_former_coordinator_deletes_no_group():
    harness = BrokerHarness()
    stable_member(harness, "g")
    writer = harness.broker.record_writer
    assert "g" in writer._written
    writer.unload("g")
    assert writer.write("g", None, harness.now) is None


def test_record_of_a_classic_member_has_milliseconds() -> None:
    classic = ClassicMemberMetadata(7.5, (("range", b"x"),))
    member = ConsumerMember(member_id="m", rebalance_timeout=2.5, classic=classic)
    value = consumer_records.member_record(ConsumerGroup(group_id="g"), member)[1]
    assert (value.classic_member_metadata.session_timeout_ms, value.rebalance_timeout_ms) == (7_500, 2_500)


def test_largest_timestamp_of_a_record_is_that_of_64_bits() -> None:
    assert WallClock(0.0).to_ms(1e20) == 9_223_372_036_854_775_807
    assert WallClock(2.0).to_ms(0.5) == 2_500


def test_group_with_records_of_two_types_has_the_later_one():
    group = read(
        (GroupMetadataKey(group="g"), GroupMetadataValue()),
        (ConsumerGroupMetadataKey(group_id="g"), ConsumerGroupMetadataValue(epoch=3)),
    )
    assert (type(group), group.generation) == (ConsumerGroup, 3)


def test_record_of_an_unknown_type_is_skipped():
    replay = Replay()
    replay.latest[b"\x03\xe7unknown"] = StoredValue(b"\0\0", 0)
    replay.latest[encode_stored(GroupMetadataKey(group="g"), 0)] = StoredValue(
        encode_stored(GroupMetadataValue(), 3), 1
    )
    context = BrokerHarness().broker.groups.context
    assert list(groups_from_records(replay, GROUP_TYPES, context, WallClock(WALL), 0.0)) == ["g"]


def test_replacing_group_has_no_record_before_a_generation():
    harness = ConsumerGroupHarness()
    harness.join("a")
    harness.leave("a")
    harness.send(BrokerHarness.join("g"), 5)
    assert (harness.group.type_name, harness.group.has_record) == ("classic", False)
    assert (GroupMetadataKey(group="g"), True) not in written_records(harness)
    stable_member(harness, "g")
    assert (GroupMetadataKey(group="g"), True) in written_records(harness)


def test_deleted_offset_has_one_tombstone():
    harness = BrokerHarness()
    commit_without_member(harness, "g")
    group = harness.broker.groups["g"]
    group.offsets.delete("t", 0)
    harness.broker.record_writer.write("g", group, harness.now)
    assert harness.ask(DeleteGroupsRequest(groups_names=["g"]), 2).results[0].error_code == E.NONE
    key = OffsetCommitKey(group="g", topic="t")
    assert written_records(harness).count((key, False)) == 1
