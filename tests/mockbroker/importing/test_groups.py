"""Groups read from log directories equal what the brokers reported; damage is reported and limited."""

from __future__ import annotations

import base64
import json
import shutil
from pathlib import Path
from uuid import UUID

import pytest
from golden import ROOT
from tools.streams_group_harness import WORD_COUNT, Request, StreamsGroupHarness

from kwire.blobs import encode_record, encode_stored
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
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
)
from kwire.messages.streams_group_heartbeat import KeyValue
from kwire.records import Record, build_batch
from mockbroker.base.settings import Settings
from mockbroker.groups.consumer.state import (
    ConsumerGroup,
)
from mockbroker.groups.group_types import GROUP_TYPES
from mockbroker.groups.records.wall_time import WallClock
from mockbroker.importing.forms import json_lines
from mockbroker.importing.groups import Imported, ImportedTopic, read_groups
from mockbroker.storage.log_dirs import LogDirError
from mockbroker.storage.segments import segment_name

DIRS = sorted(path.parent for path in ROOT.glob("fixtures/log_dirs/*/data"))
OFFSETS = "__consumer_offsets"
Pair = tuple[bytes, bytes | None]


def read(*folders: Path) -> Imported:
    return read_groups(folders, Settings())


def test_there_are_log_directories() -> None:
    assert [path.name for path in DIRS] == [
        "3.9.1-killed",
        "3.9.1-stopped",
        "4.2.0-compacted",
        "4.2.0-killed",
        "4.2.0-stopped",
    ]


@pytest.mark.parametrize("folder", DIRS, ids=lambda path: path.name)
class TestGroupsOfRealBrokers:
    def both(self, folder: Path) -> tuple[dict[str, object], Imported]:
        result = read(folder / "data")
        assert (result.problems, result.notes) == ([], [])
        return json.loads((folder / "said.json").read_text("utf-8")), result

    def test_groups(self, folder: Path) -> None:
        said, found = self.both(folder)
        listed = {group["group_id"]: group for group in said["ListGroups"]}
        share = {name for name, group in listed.items() if group["group_type"] == "share"}
        assert found.passed_over == ({"share": share} if share else {})
        assert found.groups.keys() == listed.keys() - share
        for name, group in found.groups.items():
            assert group.state_name == listed[name]["group_state"]
            new = isinstance(group, ConsumerGroup)
            assert new == (listed[name]["group_type"] == "consumer")
            assert listed[name]["protocol_type"] == ("consumer" if new else group.protocol_type)

    def test_offsets(self, folder: Path) -> None:
        said, found = self.both(folder)
        for name, group in found.groups.items():
            offsets = {
                (topic["name"], each["partition_index"]): (
                    each["committed_offset"],
                    each["committed_leader_epoch"],
                    each["metadata"],
                )
                for topic in said["OffsetFetch"][name]
                for each in topic["partitions"]
            }
            kept = group.offsets.committed.items()
            assert {place: (each.offset, each.leader_epoch, each.metadata) for place, each in kept} == offsets

    def test_classic_members(self, folder: Path) -> None:
        said, found = self.both(folder)
        for described in said["DescribeGroups"]:
            if described["group_id"] not in found.groups:
                continue
            group = found.groups[described["group_id"]]
            assert (group.protocol or "") == described["protocol_data"]
            assert sorted(group.members) == sorted(member["member_id"] for member in described["members"])
            for each in described["members"]:
                member = group.members[each["member_id"]]
                assert member.instance_id == each["group_instance_id"]
                assert (member.client_id, member.client_host) == (each["client_id"], each["client_host"])
                assert member.metadata(group.protocol) == base64.b64decode(each["member_metadata"])
                assert member.assignment == base64.b64decode(each["member_assignment"])

    def test_members_of_the_consumer_protocol(self, folder: Path) -> None:
        said, found = self.both(folder)
        for described in said["ConsumerGroupDescribe"]:
            group = found.groups[described["group_id"]]
            assert (group.epoch, group.assignment_epoch) == (described["group_epoch"], described["assignment_epoch"])
            assert sorted(group.members) == sorted(member["member_id"] for member in described["members"])
            for each in described["members"]:
                member = group.members[each["member_id"]]
                assert (member.instance_id, member.epoch) == (each["instance_id"], each["member_epoch"])
                assert sorted(member.topics) == each["subscribed_topic_names"]
                assert member.assigned == share_of(each["assignment"])
                assert {t: list(which) for t, which in group.target[each["member_id"]].items()} == {
                    UUID(bytes=base64.urlsafe_b64decode(line["topic_id"] + "==")): line["partitions"]
                    for line in each["target_assignment"]["topic_partitions"]
                }

    def test_topics(self, folder: Path) -> None:
        said, found = self.both(folder)
        assert {name: topic.partitions for name, topic in found.topics.items()} == {
            OFFSETS: 2,
            "__transaction_state": 1,
            "orders": 4,
            "bills-2026-01": 2,
        }
        assert all(topic.topic_id for topic in found.topics.values())
        for group in said["ConsumerGroupDescribe"]:
            for member in group["members"]:
                assert {topic for topic, _ in share_of(member["assignment"])} <= {found.topics["orders"].topic_id}

    def test_pending_offsets(self, folder: Path) -> None:
        _, found = self.both(folder)
        assert pending_offsets(found) == ({} if "compacted" in folder.name else {"t-open": [2], "t-waiting": [2]})


def pending_offsets(found: Imported) -> dict[str, list[int]]:
    """Return the number of pending offsets of each open transaction, by group."""
    pending = {
        name: [len(held) for held in group.offsets.pending_transactional.values()]
        for name, group in found.groups.items()
    }
    return {name: counts for name, counts in pending.items() if counts}


def share_of(described: dict[str, list[dict[str, object]]]) -> frozenset[tuple[UUID, int]]:
    return frozenset(
        (UUID(bytes=base64.urlsafe_b64decode(line["topic_id"] + "==")), index)
        for line in described["topic_partitions"]
        for index in line["partitions"]
    )


# --- log directories made here -----------------------------------------------------------------------------------


def commit(group: str, offset: int, partition: int = 0) -> Pair:
    key = OffsetCommitKey(group=group, topic="t", partition=partition)
    return encode_record(key, OffsetCommitValue(offset=offset), 3)


class LogDir:
    """A log directory with a __consumer_offsets topic that tests write."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ends: dict[int, int] = {}

    def write(self, *records: Pair, partition: int = 0, epoch: int = 0, **batch: object) -> Path:
        path = self.folder / f"{OFFSETS}-{partition}" / segment_name(0)
        path.parent.mkdir(parents=True, exist_ok=True)
        base = self.ends.get(partition, 0)
        made = [Record(key=key, value=value) for key, value in records]
        with path.open("ab") as file:
            file.write(build_batch(made, base_offset=base, leader_epoch=epoch, **batch))
        self.ends[partition] = base + len(records)
        return path


@pytest.fixture
def log_dir(tmp_path: Path) -> LogDir:
    return LogDir(tmp_path / "logs")


def offsets(found: Imported) -> dict[str, dict[int, int]]:
    return {
        name: {index: each.offset for (_, index), each in group.offsets.committed.items()}
        for name, group in found.groups.items()
    }


def test_only_tombstones(log_dir: LogDir) -> None:
    key, _ = commit("g", 1)
    log_dir.write((key, None))
    result = read(log_dir.folder)
    assert (result.groups, result.problems, result.notes) == ({}, [], [])


@pytest.mark.parametrize("keep", range(0, 230, 7))
def test_truncated_log_is_read_up_to_its_last_whole_batch(log_dir: LogDir, keep: int) -> None:
    sizes = []
    for n in range(3):
        path = log_dir.write(commit("g", n, n))
        sizes.append(path.stat().st_size)
    path.write_bytes(path.read_bytes()[:keep])
    result = read(log_dir.folder)
    whole = sum(size <= keep for size in sizes)
    assert offsets(result) == ({"g": {n: n for n in range(whole)}} if whole else {})
    begin = [0, *sizes][whole]
    if keep in (0, *sizes):
        assert result.problems == []
    else:
        (problem,) = result.problems
        assert (problem.path, problem.position) == (path, begin)
        assert str(problem).startswith(f"{path} at byte {begin}: torn: ")
        assert str(problem).endswith(f"; read up to offset {whole}")


def test_damage_in_one_partition_does_not_affect_others(log_dir: LogDir) -> None:
    log_dir.write(commit("a", 1))
    bad = log_dir.write(commit("b", 2), partition=1)
    data = bytearray(bad.read_bytes())
    data[-1] ^= 1
    bad.write_bytes(data)
    result = read(log_dir.folder)
    assert offsets(result) == {"a": {0: 1}}
    (problem,) = result.problems
    assert (problem.path, problem.position) == (bad, 0)
    assert problem.text.startswith("crc: ")


def test_invalid_batch_ends_the_log(log_dir: LogDir) -> None:
    log_dir.write(commit("g", 1))
    bad = log_dir.write((b"", b""))
    log_dir.write(commit("g", 3))
    start = bad.read_bytes().index(b"\0\0\0\0\0\0\0\1\0\0\0")
    keyless = build_batch([Record(value=b"x")], base_offset=1)
    bad.write_bytes(bad.read_bytes()[:start] + keyless)
    result = read(log_dir.folder)
    assert offsets(result) == {"g": {0: 1}}
    assert [str(problem) for problem in result.problems] == [
        f"{bad} at byte {start}: invalid batch: the record has no key, so its type is unknown; read up to offset 1"
    ]


def test_unknown_record_types_are_one_problem_each(log_dir: LogDir) -> None:
    log_dir.write(commit("g", 1), (b"\0\x63a", b"1"), (b"\0\x63b", b"2"), (b"\0\x63a", None), commit("g", 5, 1))
    result = read(log_dir.folder)
    assert offsets(result) == {"g": {0: 1, 1: 5}}
    assert [problem.text for problem in result.problems] == ["1 record of unknown type 99, the first at offset 2"]


BAD_RECORDS = [
    (
        (encode_stored(OffsetCommitKey(group="g", topic="t", partition=3), 0), b"\0\x09rest"),
        "has an unsupported format",
    ),
    ((encode_stored(OffsetCommitKey(group="g", topic="t", partition=3), 0), b"\0\3\0"), "is damaged"),
    ((encode_stored(OffsetCommitKey(group="g", topic="t", partition=3), 0)[:-1], b"x"), "is damaged"),
    ((b"\0", b"x"), "is damaged"),
]


@pytest.mark.parametrize(("record", "reason"), BAD_RECORDS)
def test_unreadable_record_is_a_problem(log_dir: LogDir, record: Pair, reason: str) -> None:
    path = log_dir.write(commit("g", 1), record, commit("g", 5, 1))
    result = read(log_dir.folder)
    assert offsets(result) == {"g": {0: 1, 1: 5}}
    (problem,) = result.problems
    assert problem.path == path
    assert problem.text.startswith(f"the record at offset 1 {reason}: ")


def test_unreadable_record_of_an_open_transaction(log_dir: LogDir) -> None:
    log_dir.write(commit("g", 1), BAD_RECORDS[1][0], producer_id=7, producer_epoch=0, transactional=True)
    result = read(log_dir.folder)
    assert offsets(result) == {"g": {}}
    assert pending_offsets(result) == {"g": [1]}
    assert [problem.text[:37] for problem in result.problems] == ["the record at offset 1 is damaged: Of"]


def test_group_with_an_unknown_member_state_is_a_problem(log_dir: LogDir) -> None:
    names = {"group_id": "g", "member_id": "m"}
    current = ConsumerGroupCurrentMemberAssignmentValue(state=77)
    log_dir.write(
        commit("other", 1),
        encode_record(ConsumerGroupMemberMetadataKey(**names), ConsumerGroupMemberMetadataValue(), 0),
        encode_record(ConsumerGroupMetadataKey(group_id="g"), ConsumerGroupMetadataValue(epoch=1), 0),
        encode_record(ConsumerGroupCurrentMemberAssignmentKey(**names), current, 0),
    )
    result = read(log_dir.folder)
    assert offsets(result) == {"other": {0: 1}}
    assert [problem.text for problem in result.problems] == [
        "group 'g' cannot be rebuilt: ConsumerGroupCurrentMemberAssignmentValue at byte 0: member m has the"
        " invalid state 77: expected 0 to 2"
    ]


def test_group_without_a_metadata_record_is_a_problem(log_dir: LogDir) -> None:
    key = ConsumerGroupMemberMetadataKey(group_id="g", member_id="m")
    log_dir.write(encode_record(key, ConsumerGroupMemberMetadataValue(), 0))
    result = read(log_dir.folder)
    assert result.groups == {}
    assert [problem.text for problem in result.problems] == ["group 'g': the group metadata record is missing"]


def test_share_groups_are_listed(log_dir: LogDir) -> None:
    value = ShareGroupMetadataValue(epoch=1)
    log_dir.write(encode_record(ShareGroupMetadataKey(group_id="s"), value, 0), commit("g", 1))
    result = read(log_dir.folder)
    assert result.passed_over == {"share": {"s"}}
    assert result.groups.keys() == {"g"}


def test_streams_groups_are_read(log_dir: LogDir) -> None:
    harness = StreamsGroupHarness(config={"group.streams.num.standby.replicas": 1}, topics={"t": 4})
    harness.join("m1", WORD_COUNT, process_id="p1", client_tags=[KeyValue(key="zone", value="z")])
    harness.join("m2", WORD_COUNT, process_id="p2", user_endpoint=Request.Endpoint(host="h", port=9))
    harness.settle()
    wall = WallClock(0.0)
    pairs = [encode_record(*record) for record in GROUP_TYPES.of(harness.group).records(harness.group, wall)]
    log_dir.write(*pairs)
    result = read(log_dir.folder)
    assert (result.problems, result.passed_over, result.groups.keys()) == ([], {}, {"g"})
    [group, _] = json_lines(result, Settings())
    assert group == {
        "group_id": "g",
        **GROUP_TYPES.of(harness.group).to_json(harness.group, {}, Settings()),
        "offsets": [],
        "waiting": [],
    }
    assert [member["client_tags"] for member in group["members"]] == [{"zone": "z"}, {}]
    assert sum(len(member["tasks"]["active"]["0"]) for member in group["members"]) == 4


def test_records_before_the_log_start_offset_are_ignored(log_dir: LogDir) -> None:
    log_dir.write(commit("old", 1))
    log_dir.write(commit("new", 1))
    start = log_dir.folder / "log-start-offset-checkpoint"
    start.write_text(f"0\n1\n{OFFSETS} 0 1\n")
    assert read(log_dir.folder).groups.keys() == {"new"}
    start.write_text("0\n2\n")
    result = read(log_dir.folder)
    assert result.groups.keys() == {"old", "new"}
    assert [problem.path for problem in result.problems] == [start]


def test_newest_replica_of_several_brokers_is_used(tmp_path: Path) -> None:
    first, second = LogDir(tmp_path / "1"), LogDir(tmp_path / "2")
    for each in (first, second):
        each.write(commit("both", 1))
    second.write(commit("both", 2))
    first.write(commit("one", 1), partition=2)
    result = read(first.folder, second.folder)
    assert offsets(result) == {"both": {0: 2}, "one": {0: 1}}
    assert result.problems == []
    assert sorted(result.notes) == sorted(
        [
            f"missing partitions of {OFFSETS}: 1",
            f"{first.folder / f'{OFFSETS}-0'}: ignored, {second.folder / f'{OFFSETS}-0'} is as new or newer",
        ]
    )


def test_newest_leader_epoch_wins_over_the_longest_log(tmp_path: Path) -> None:
    first, second = LogDir(tmp_path / "1"), LogDir(tmp_path / "2")
    for n in range(3):
        first.write(commit("g", n), epoch=4)
    second.write(commit("g", 9), epoch=5)
    assert offsets(read(first.folder, second.folder)) == {"g": {0: 9}}
    assert offsets(read(second.folder, first.folder)) == {"g": {0: 9}}


def test_group_in_two_partitions_is_noted(log_dir: LogDir) -> None:
    log_dir.write(commit("g", 1))
    log_dir.write(commit("g", 2), partition=1)
    result = read(log_dir.folder)
    assert offsets(result) == {"g": {0: 2}}
    assert result.notes == [f"group 'g' is in several partitions; the one in {log_dir.folder / f'{OFFSETS}-1'} is used"]


def test_classic_group_without_members_or_offsets(log_dir: LogDir) -> None:
    value = GroupMetadataValue(protocol_type="connect", generation=3)
    log_dir.write(encode_record(GroupMetadataKey(group="g"), value, 3))
    group = read(log_dir.folder).groups["g"]
    assert (group.state_name, group.generation, group.protocol_type) == ("Empty", 3, "connect")


def test_missing_offsets_topic_is_noted(tmp_path: Path) -> None:
    (tmp_path / "orders-1").mkdir()
    (tmp_path / "meta.properties").touch()
    result = read(tmp_path)
    assert result.topics == {"orders": ImportedTopic(None, 2)}
    assert result.notes == [f"no partition of {OFFSETS} and therefore no group found"]


def test_missing_partitions_are_noted_as_ranges(log_dir: LogDir) -> None:
    log_dir.write(commit("g", 1), partition=1)
    log_dir.write(commit("h", 1), partition=3)
    log_dir.write(commit("i", 1), partition=9_999_999_999)
    assert read(log_dir.folder).notes == [f"missing partitions of {OFFSETS}: 0, 2, 4-9999999998"]


def test_the_metadata_log_is_no_topic(log_dir: LogDir) -> None:
    """A Kafka server that is both broker and controller keeps this log in its own directory, hidden from clients."""
    log_dir.write(commit("g", 1))
    folder = log_dir.folder / "__cluster_metadata-0"
    folder.mkdir()
    (folder / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    result = read(log_dir.folder)
    assert (list(result.topics), result.problems, result.notes) == ([OFFSETS], [], [])


def test_different_topic_ids_are_a_problem(tmp_path: Path) -> None:
    for index, letter in enumerate("AB"):
        folder = tmp_path / f"orders-{index}"
        folder.mkdir()
        (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {letter * 21}A")
    result = read(tmp_path)
    assert [str(problem) for problem in result.problems] == [
        f"{tmp_path / 'orders-1'}: topic id BBBBBBBBBBBBBBBBBBBBBA differs from that of other partitions of the topic"
    ]


def test_folder_that_is_not_a_log_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LogDirError, match="not a Kafka log directory"):
        read(tmp_path)


def test_real_segment_truncated_anywhere(tmp_path: Path) -> None:
    """Batches before the truncation are read, and a truncation within a batch is one problem."""
    source = ROOT / "fixtures" / "log_dirs" / "4.2.0-stopped" / "data"
    folder = tmp_path / "data"
    shutil.copytree(source / f"{OFFSETS}-1", folder / f"{OFFSETS}-1")
    path = folder / f"{OFFSETS}-1" / segment_name(0)
    data = path.read_bytes()
    seen: list[int] = []
    for size in range(0, len(data), 13):
        path.write_bytes(data[:size])
        result = read(folder)
        assert len(result.problems) <= 1
        seen.append(sum(len(records.latest) for records in result.records.values()))
    assert seen[0] == 0
    assert max(seen) > 10
