"""Cases with contradictory or absurd responses about group members, assignments and committed offsets."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from kwire.blobs import encode_stored
from kwire.blobs.consumer_protocol import ConsumerProtocolAssignment
from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kwire.messages.join_group import JoinGroupResponse
from mockbroker.lab.torture.case import Case, Turn
from mockbroker.lab.torture.cases.cluster import no_topics

MANY_MEMBERS, MANY_PARTITIONS = 10_000, 1_000_000
Member = JoinGroupResponse.Member
Target = ConsumerGroupHeartbeatResponse.Assignment


def assignment(topic: str, partitions: list[int]) -> bytes:
    kind = ConsumerProtocolAssignment.TopicPartition
    assigned = [kind(topic=topic, partitions=partitions)]
    return encode_stored(ConsumerProtocolAssignment(assigned_partitions=assigned), 1)


def other_protocol(response: Any, _request: Any, _: Turn) -> None:
    response.protocol_name = "does-not-exist"


def absent_leader(response: Any, _request: Any, _: Turn) -> None:
    response.leader = "somebody-else"


def leader_without_members(response: Any, _request: Any, _: Turn) -> None:
    response.leader, response.members = response.member_id, []


def leader_among_others(response: Any, _request: Any, _: Turn) -> None:
    metadata = response.members[0].metadata if response.members else b""
    response.leader, response.members = response.member_id, [Member(member_id="somebody-else", metadata=metadata)]


def empty_member_id(response: Any, _request: Any, _: Turn) -> None:
    response.member_id = ""


def new_member_ids(response: Any, _request: Any, turn: Turn) -> None:
    response.member_id = f"member-{turn.number}"


def negative_generation(response: Any, _request: Any, _: Turn) -> None:
    response.generation_id = -1


def last_generation(response: Any, _request: Any, _: Turn) -> None:
    response.generation_id = 2**31 - 1


def garbage_subscriptions(response: Any, _request: Any, turn: Turn) -> None:
    response.leader = response.member_id
    response.members = [Member(member_id=response.member_id, metadata=turn.random.randbytes(40))]


def empty_subscriptions(response: Any, _request: Any, _: Turn) -> None:
    response.leader = response.member_id
    response.members = [Member(member_id=response.member_id, metadata=b"")]


def many_members(response: Any, _request: Any, _: Turn) -> None:
    if response.members:
        metadata = response.members[0].metadata
        response.members += [Member(member_id=f"m{n}", metadata=metadata) for n in range(MANY_MEMBERS)]


def empty_assignment(response: Any, _request: Any, _: Turn) -> None:
    response.assignment = b""


def garbage_assignment(response: Any, _request: Any, turn: Turn) -> None:
    response.assignment = turn.random.randbytes(50)


def cut_assignment(response: Any, _request: Any, _: Turn) -> None:
    response.assignment = response.assignment[: len(response.assignment) // 2]


def future_assignment(response: Any, _request: Any, _: Turn) -> None:
    response.assignment = b"\x7f\xff" + response.assignment[2:]


def unknown_topic(response: Any, _request: Any, _: Turn) -> None:
    response.assignment = assignment("does-not-exist", [0])


def absent_partition(response: Any, _request: Any, _: Turn) -> None:
    response.assignment = assignment("torture", [2**31 - 1])


def negative_partition(response: Any, _request: Any, _: Turn) -> None:
    response.assignment = assignment("torture", [-1])


def many_partitions(response: Any, _request: Any, _: Turn) -> None:
    response.assignment = assignment("torture", list(range(MANY_PARTITIONS)))


def huge_array_assignment(response: Any, _request: Any, _: Turn) -> None:
    response.assignment = b"\0\1" + (2**31 - 1).to_bytes(4, "big")


# --- consumer protocol (KIP-848) ---


def no_interval(response: Any, _request: Any, _: Turn) -> None:
    response.heartbeat_interval_ms = 0


def negative_interval(response: Any, _request: Any, _: Turn) -> None:
    response.heartbeat_interval_ms = -1


def falling_epoch(response: Any, _request: Any, turn: Turn) -> None:
    response.member_epoch = max(1, 1_000 - turn.number)


def negative_epoch(response: Any, _request: Any, _: Turn) -> None:
    response.member_epoch = -1


def no_member_id(response: Any, _request: Any, _: Turn) -> None:
    response.member_id = None


def unknown_topic_id(response: Any, _request: Any, _: Turn) -> None:
    response.assignment = Target(topic_partitions=[Target.TopicPartition(topic_id=UUID(int=999), partitions=[0])])


def a_million_partitions(response: Any, _request: Any, _: Turn) -> None:
    each = Target.TopicPartition(topic_id=UUID(int=999), partitions=list(range(MANY_PARTITIONS)))
    response.assignment = Target(topic_partitions=[each])


# --- offsets ---


def committed(response: Any) -> list[Any]:
    topics = [topic for group in response.groups for topic in group.topics] if response.groups else response.topics
    return [each for topic in topics for each in topic.partitions]


def huge_offsets(response: Any, _request: Any, _: Turn) -> None:
    for each in committed(response):
        each.committed_offset, each.error_code = 2**62, 0


def negative_offsets(response: Any, _request: Any, _: Turn) -> None:
    for each in committed(response):
        each.committed_offset, each.error_code = -5, 0


def no_offsets(response: Any, _request: Any, _: Turn) -> None:
    response.topics = []
    for group in response.groups or []:
        group.topics = []


def other_partitions(response: Any, _request: Any, _: Turn) -> None:
    for each in committed(response):
        each.partition_index += 1_000


def no_groups(response: Any, _request: Any, _: Turn) -> None:
    response.topics = []
    if response.groups:
        response.groups = []


CHANGES = [  # name, step, description, change
    ("other-protocol", "JoinGroup", "chooses an assignor that no member has", other_protocol),
    ("absent-leader", "JoinGroup", "chooses a leader that is no member", absent_leader),
    (
        "leader-without-members",
        "JoinGroup",
        "makes each member the leader of an empty group",
        leader_without_members,
    ),
    ("leader-among-others", "JoinGroup", "makes each member the leader of a group of others", leader_among_others),
    ("empty-member-id", "JoinGroup", "gives members an empty id", empty_member_id),
    ("new-member-ids", "JoinGroup", "gives members another id each time", new_member_ids),
    ("negative-generation", "JoinGroup", "begins generation -1", negative_generation),
    ("last-generation", "JoinGroup", "begins generation 2147483647", last_generation),
    ("garbage-subscriptions", "JoinGroup", "sends random bytes as the subscriptions of members", garbage_subscriptions),
    ("empty-subscriptions", "JoinGroup", "sends empty subscriptions of members", empty_subscriptions),
    ("many-members", "JoinGroup", "sends the leader 10,000 members", many_members),
    ("empty-assignment", "SyncGroup", "sends an assignment of 0 bytes", empty_assignment),
    ("garbage-assignment", "SyncGroup", "sends random bytes as the assignment", garbage_assignment),
    ("cut-assignment", "SyncGroup", "sends half of the assignment", cut_assignment),
    ("future-assignment", "SyncGroup", "sends an assignment of version 32767", future_assignment),
    (
        "huge-array-assignment",
        "SyncGroup",
        "announces an assignment of 2147483647 topics",
        huge_array_assignment,
    ),
    ("unknown-topic", "SyncGroup", "assigns a topic that does not exist", unknown_topic),
    ("absent-partition", "SyncGroup", "assigns partition 2147483647", absent_partition),
    ("negative-partition", "SyncGroup", "assigns partition -1", negative_partition),
    ("million-partitions", "SyncGroup", "assigns a million partitions", many_partitions),
    ("no-interval", "ConsumerGroupHeartbeat", "asks for heartbeats every 0 ms", no_interval),
    ("negative-interval", "ConsumerGroupHeartbeat", "asks for heartbeats every -1 ms", negative_interval),
    ("falling-epoch", "ConsumerGroupHeartbeat", "sends a lower member epoch each time", falling_epoch),
    ("negative-epoch", "ConsumerGroupHeartbeat", "sends member epoch -1", negative_epoch),
    ("no-member-id", "ConsumerGroupHeartbeat", "sends no member id", no_member_id),
    ("unknown-topic-id", "ConsumerGroupHeartbeat", "assigns a topic id that does not exist", unknown_topic_id),
    ("million-partitions-848", "ConsumerGroupHeartbeat", "assigns a million partitions", a_million_partitions),
    ("huge-committed-offsets", "OffsetFetch", "returns committed offsets of 2^62", huge_offsets),
    ("negative-committed-offsets", "OffsetFetch", "returns committed offsets of -5", negative_offsets),
    ("no-committed-offsets", "OffsetFetch", "leaves all partitions out", no_offsets),
    ("other-committed-partitions", "OffsetFetch", "returns offsets of other partitions", other_partitions),
    ("no-groups", "OffsetFetch", "leaves the group out", no_groups),
    ("no-commit-results", "OffsetCommit", "leaves the results of all partitions out", no_topics),
]
PUBLISHED = {"empty-assignment": "https://github.com/tulios/kafkajs/issues/550"}
CASES = [
    Case(name, step, what, change=change, published=PUBLISHED.get(name, "")) for name, step, what, change in CHANGES
]
