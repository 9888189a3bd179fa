"""The records of consumer, share and streams groups that a change writes, and the groups that a load restores."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from tools.consumer_group_harness import MixedGroupHarness
from tools.share_group_harness import ShareGroupHarness
from tools.streams_group_harness import STATEFUL, StreamsGroupHarness, owned_fields

from kwire.blobs import decode_record
from kwire.blobs.offsets_topic import (
    ConsumerGroupCurrentMemberAssignmentValue,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMetadataValue,
)
from kwire.errors import DecodeError
from kwire.messages.streams_group_heartbeat import KeyValue, StreamsGroupHeartbeatRequest
from mockbroker.groups.consumer import records as consumer
from mockbroker.groups.records.wall_time import WallClock
from mockbroker.groups.share import records as share
from mockbroker.groups.share.state import SharedTopic, ShareGroup
from mockbroker.groups.streams import records as streams
from mockbroker.topics.model import OFFSETS_TOPIC

WALL = WallClock(1_000.0)
SESSIONS = {f"group.{kind}.session.timeout.ms": 46_000 for kind in ("consumer", "share", "streams")}


def consumer_group() -> MixedGroupHarness:
    """Return a group of a, which revokes partitions and expires in 60 s, b, c with a regex, and a classic member."""
    harness = MixedGroupHarness({"group.consumer.migration.policy": "bidirectional"} | SESSIONS)
    harness.join("a", rack_id="r", instance_id="i", server_assignor="range", rebalance_timeout_ms=60_250)
    harness.join("c", [], subscribed_topic_names=None, subscribed_topic_regex="u.*")
    harness.classic(session=12_500)
    harness.join("b", ["t", "u"])
    owned = harness.lines(harness.clients["a"].assigned)
    harness.beat("a", member_epoch=harness.group.members["a"].epoch, instance_id="i", topic_partitions=owned)
    return harness


def share_group() -> ShareGroupHarness:
    harness = ShareGroupHarness(topics={"t": 3, "u": 2}, config=SESSIONS)
    harness.enter("a", ["t", "u"], rack_id="r")
    harness.enter("b")
    harness.settle()
    group = harness.group
    group.set_shared_topics(
        initializing={UUID(int=900): SharedTopic("new", frozenset({2, 1}))}, deleting={UUID(int=901): "old"}
    )
    return harness


def streams_group() -> StreamsGroupHarness:
    """Return a group of a, which revokes a task and expires in 60 s, and b."""
    harness = StreamsGroupHarness(config=SESSIONS)
    endpoint = StreamsGroupHeartbeatRequest.Endpoint(host="h", port=7)
    tags = [KeyValue(key="k", value="v"), KeyValue(key="j", value="w")]
    harness.join("a", STATEFUL, rack_id="r", user_endpoint=endpoint, client_tags=tags, rebalance_timeout_ms=60_250)
    harness.settle()
    harness.join("b", STATEFUL)
    harness.beat("a", member_epoch=harness.group.members["a"].epoch, **owned_fields(harness.clients["a"].owns))
    return harness


def consumer_records(harness: Any) -> list[Any]:
    return list(consumer.records(harness.group, WALL))


def loaded_consumer(entries: Iterable[Any], harness: Any) -> Any:
    return consumer.group_from_records("g", entries, harness.broker.groups.context, WALL, 100.0)


def loaded_share(entries: Iterable[Any], harness: Any) -> Any:
    return share.group_from_records("g", entries, harness.broker.groups.context, 100.0)


def loaded_streams(entries: Iterable[Any], harness: Any) -> Any:
    return streams.group_from_records("g", entries, harness.broker.groups.context, 100.0)


KINDS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any], Callable[[Iterable[Any], Any], Any]]] = {
    "consumer": (consumer_group, consumer_records, loaded_consumer),
    "share": (share_group, lambda harness: list(share.records(harness.group)), loaded_share),
    "streams": (streams_group, lambda harness: list(streams.records(harness.group)), loaded_streams),
}


@pytest.mark.parametrize("kind", KINDS)
def test_loaded_group_equals_the_written_one(kind: str) -> None:
    make, written, load = KINDS[kind]
    harness = make()
    entries = written(harness)
    group = load([(key, value) for key, value, _ in entries], harness)
    original = harness.group
    assert (group.epoch, group.assignment_epoch) == (original.epoch, original.assignment_epoch)
    assert (group.target, group.state_name) == (original.target, original.state_name)
    harness.broker.groups["g"] = group
    assert written(harness) == entries


@pytest.mark.parametrize("kind", KINDS)
def test_sessions_of_a_loaded_group_start_again(kind: str) -> None:
    make, written, load = KINDS[kind]
    harness = make()
    group = load([(key, value) for key, value, _ in written(harness)], harness)
    assert {group.timers.at(("session", name)) for name in group.members} == {146.0}
    revoking = 160.25 if kind != "share" else None
    assert [group.timers.at(("rebalance", name)) for name in ("a", "b")] == [revoking, None]


@pytest.mark.parametrize(("timeout_ms", "at"), [(-1, None), (0, 100.0), (1, 100.001)])
def test_rebalance_timeout_of_a_loaded_member_starts_again(timeout_ms: int, at: float | None) -> None:
    harness = consumer_group()
    entries = [
        (key, replace(value, rebalance_timeout_ms=timeout_ms) if isinstance(value, consumer.Metadata) else value)
        for key, value, _ in consumer_records(harness)
    ]
    assert loaded_consumer(entries, harness).timers.at(("rebalance", "a")) == at


@pytest.mark.parametrize(("written", "loaded"), [(None, ""), ("", ""), ("v.*", "v.*")])
def test_null_as_regex_is_no_regex(written: str | None, loaded: str) -> None:
    harness = consumer_group()
    entries = [
        (key, replace(value, subscribed_topic_regex=written) if isinstance(value, consumer.Metadata) else value)
        for key, value, _ in consumer_records(harness)
    ]
    assert {member.regex for member in loaded_consumer(entries, harness).members.values()} == {loaded}


def test_loaded_share_group_initializes_the_rest_later() -> None:
    harness = share_group()
    group = loaded_share([(key, value) for key, value, _ in share.records(harness.group)], harness)
    assert (group.initializing, group.deleting) == (harness.group.initializing, harness.group.deleting)
    assert group.initialized == harness.group.initialized != {}
    assert group.timers.at(("initialize", "")) == 130.0
    harness.group.set_shared_topics(initializing={})
    group = loaded_share([(key, value) for key, value, _ in share.records(harness.group)], harness)
    assert group.timers.at(("initialize", "")) is None


@pytest.mark.parametrize("kind", KINDS)
def test_metadata_is_read_again_if_topics_changed(kind: str) -> None:
    make, written, load = KINDS[kind]
    if kind == "streams":
        return  # the record has only the hash
    harness = make()
    entries = [(key, value) for key, value, _ in written(harness)]
    version = harness.broker.cluster.epoch
    assert load(entries, harness).metadata_version == version
    harness.broker.cluster.add_partitions(harness.broker.cluster.topics["t"], [[0]])
    assert load(entries, harness).metadata_version != harness.broker.cluster.epoch


@pytest.mark.parametrize("kind", KINDS)
def test_group_without_its_record_is_not_loaded(kind: str) -> None:
    make, written, load = KINDS[kind]
    harness = make()
    entries = [(key, value) for key, value, _ in written(harness)]
    epoch = {"consumer": "ConsumerGroupMetadataKey", "share": "ShareGroupMetadataKey"}
    name = epoch.get(kind, "StreamsGroupMetadataKey")
    rest = [entry for entry in entries if type(entry[0]).__name__ != name]
    assert len(rest) == len(entries) - 1
    loaded = load(rest, harness)
    assert (loaded is None) is (kind != "share"), "a share group may have only a status of its partitions"
    assert load([], harness) is None


# --- records of each change -----------------------------------------------------------------------------------------


def changed(harness: Any, kind: str, change: Callable[[Any], object]) -> list[tuple[str, str, bool]]:
    """Return the records that a change writes: the key's class without its prefix, the member, whether a tombstone."""
    group = harness.group
    group.changes.clear()
    change(group)
    module = {"consumer": consumer, "share": share, "streams": streams}[kind]
    found = module.changed_records(group, WALL) if kind == "consumer" else module.changed_records(group)
    result = []
    for key, value in found:
        decoded, _ = decode_record(OFFSETS_TOPIC, key, value)
        name = type(decoded).__name__.removeprefix(f"{kind.title()}Group").removesuffix("Key")
        member = getattr(decoded, "member_id", "") or getattr(decoded, "regular_expression", "")
        result.append((name, member, value is None))
    return result


ALL = ("consumer", "share", "streams")
CHANGES = [  # kinds, change, records
    (ALL, lambda _: None, []),
    (ALL, lambda group: setattr(group, "epoch", 50), [("Metadata", "", False)]),
    (ALL, lambda group: setattr(group, "assignment_epoch", 50), [("TargetAssignmentMetadata", "", False)]),
    (
        ALL,
        lambda group: group.put_member(replace(group.members["b"], rack_id="z")),
        [("MemberMetadata", "b", False), ("CurrentMemberAssignment", "b", False)],
    ),
    (ALL, lambda group: group.target.__setitem__("b", group.target["a"]), [("TargetAssignmentMember", "b", False)]),
    (ALL, lambda group: group.target.__delitem__("b"), [("TargetAssignmentMember", "b", True)]),
    (
        ALL,
        lambda group: group.members.__delitem__("b"),
        [
            ("CurrentMemberAssignment", "b", True),
            ("TargetAssignmentMember", "b", True),
            ("MemberMetadata", "b", True),
        ],
    ),
    (("consumer", "share"), lambda group: setattr(group, "topic_metadata", {}), [("Metadata", "", False)]),
    (("streams",), lambda group: setattr(group, "metadata_hash", 5), [("Metadata", "", False)]),
    (("streams",), lambda group: setattr(group, "validated_topology_epoch", 5), [("Metadata", "", False)]),
    (("streams",), lambda group: setattr(group, "assignment_configs", {}), [("Metadata", "", False)]),
    (("streams",), lambda group: setattr(group, "topology", group.topology), [("Topology", "", False)]),
    (("streams",), lambda group: setattr(group, "topology", None), []),
    (("streams",), lambda group: setattr(group, "assignment_epoch", 0), []),
    (
        ("consumer",),
        lambda group: group.resolved_regexes.__delitem__("u.*"),
        [("RegularExpression", "u.*", True)],
    ),
    (
        ("consumer",),
        lambda group: group.resolved_regexes.update(group.resolved_regexes),
        [("RegularExpression", "u.*", False)],
    ),
    (
        ("share",),
        lambda group: group.set_shared_topics(initializing={}),
        [("StatePartitionMetadata", "", False)],
    ),
    (
        ("share",),
        lambda group: group.set_shared_topics(initializing={}, initialized={}, deleting={}),
        [("StatePartitionMetadata", "", True)],
    ),
]
ROWS = [(kind, *row[1:]) for row in CHANGES for kind in row[0]]


@pytest.mark.parametrize(
    ("kind", "change", "expected"), ROWS, ids=[f"{number} {row[0]}" for number, row in enumerate(ROWS)]
)
def test_change_writes_its_records(
    kind: str, change: Callable[[Any], object], expected: list[tuple[str, str, bool]]
) -> None:
    assert changed(KINDS[kind][0](), kind, change) == expected


# --- records of other versions ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "valid"), [("consumer", range(3)), ("streams", range(1, 4))])
def test_state_of_a_member_is_a_known_number(kind: str, valid: range) -> None:
    make, written, load = KINDS[kind]
    harness = make()
    value_class = (
        ConsumerGroupCurrentMemberAssignmentValue if kind == "consumer" else StreamsGroupCurrentMemberAssignmentValue
    )
    for state in (min(valid) - 1, *valid, max(valid) + 1):
        entries = [
            (key, replace(value, state=state) if isinstance(value, value_class) else value)
            for key, value, _ in written(harness)
        ]
        if state in valid:
            assert load(entries, harness) is not None
        else:
            with pytest.raises(DecodeError, match=str(state)):
                load(entries, harness)


def test_tasks_without_epochs_have_that_of_the_member() -> None:
    ids = StreamsGroupCurrentMemberAssignmentValue.TaskIds
    assert streams._active_tasks([ids(subtopology_id="0", partitions=[1, 2])], 7) == {("0", 1): 7, ("0", 2): 7}
    given = ids(subtopology_id="0", partitions=[1, 2], assignment_epochs=[3, 4])
    assert streams._active_tasks([given, ids(subtopology_id="1", partitions=[0])], 7) == {
        ("0", 1): 3,
        ("0", 2): 4,
        ("1", 0): 7,
    }
    with pytest.raises(DecodeError, match="subtopology 0 has 2 partitions, but 1 epochs"):
        streams._active_tasks([ids(subtopology_id="0", partitions=[1, 2], assignment_epochs=[3])], 7)


def test_members_of_share_groups_are_stored_as_stable() -> None:
    """The state of a ShareGroupCurrentMemberAssignment is 0, STABLE."""
    values = [value for _, value, _ in share.records(share_group().group) if isinstance(value, share.Current)]
    assert [value.state for value in values] == [0, 0]


def test_streams_group_without_assignment_settings_is_loaded() -> None:
    harness = streams_group()
    entries = [
        (key, replace(value, last_assignment_configs=None) if isinstance(value, StreamsGroupMetadataValue) else value)
        for key, value, _ in streams.records(harness.group)
    ]
    assert loaded_streams(entries, harness).assignment_configs == {}


def test_member_without_a_current_assignment_owns_nothing() -> None:
    harness = consumer_group()
    kind = ConsumerGroupCurrentMemberAssignmentValue
    entries = [(key, value) for key, value, _ in consumer_records(harness) if not isinstance(value, kind)]
    members = loaded_consumer(entries, harness).members.values()
    assert len(members) == len(harness.group.members)
    assert {(member.epoch, member.assigned) for member in members} == {(0, frozenset())}


@pytest.mark.parametrize("missing", [share.Status, share.ShareGroupMetadataValue])
def test_share_group_needs_one_of_its_two_records(missing: type) -> None:
    harness = share_group()
    entries = [(key, value) for key, value, _ in share.records(harness.group) if not isinstance(value, missing)]
    assert isinstance(loaded_share(entries, harness), ShareGroup)
    both = (share.Status, share.ShareGroupMetadataValue)
    assert loaded_share([entry for entry in entries if not isinstance(entry[1], both)], harness) is None


@pytest.mark.parametrize(("timeout_ms", "at"), [(-1, None), (0, 100.0), (1, 100.001)])
def test_rebalance_timeout_of_a_loaded_streams_member(timeout_ms: int, at: float | None) -> None:
    harness = streams_group()
    entries = [
        (key, replace(value, rebalance_timeout_ms=timeout_ms) if isinstance(value, streams.Metadata) else value)
        for key, value, _ in streams.records(harness.group)
    ]
    assert loaded_streams(entries, harness).timers.at(("rebalance", "a")) == at


@pytest.mark.parametrize("kind", KINDS)
def test_group_without_assignment_records_has_none(kind: str) -> None:
    make, written, load = KINDS[kind]
    harness = make()
    entries = [(key, value) for key, value, _ in written(harness)]
    without = [entry for entry in entries if "AssignmentMetadata" not in type(entry[0]).__name__]
    without = [entry for entry in without if "CurrentMemberAssignment" not in type(entry[0]).__name__]
    assert len(without) < len(entries)
    group = load(without, harness)
    assert (group.epoch, group.assignment_epoch) == (harness.group.epoch, 0)
    assert {member.epoch for member in group.members.values()} == {0}
    assert set(group.members) == set(harness.group.members)
