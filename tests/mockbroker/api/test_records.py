"""Topics and records that a test deletes without a client. For creating them, see test_thread.py."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import pytest
import trio
import trio.testing

from kwire import EncodeError
from kwire import ErrorCode as E
from kwire.messages.fetch import FetchRequest
from kwire.messages.list_offsets import ListOffsetsRequest
from mockbroker import (
    Cluster,
    ConflictError,
    InternalTopicError,
    InvalidRule,
    Record,
    SettingsError,
    TopicExistsError,
    UnknownTopicError,
    open_cluster,
)
from mockbroker.api.records import RejectedRecordError
from mockbroker.faults.sections import Problem

EARLIEST = -2


@pytest.mark.parametrize("error", [RejectedRecordError(3, "no"), InvalidRule([Problem("match.api", "is unknown")])])
def test_copies_and_pickles_have_text_and_attributes(error: Exception) -> None:
    for again in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


async def earliest(cluster: Cluster) -> int:
    partition = ListOffsetsRequest.Topic.Partition(partition_index=0, timestamp=EARLIEST)
    request = ListOffsetsRequest(topics=[ListOffsetsRequest.Topic(name="t", partitions=[partition])])
    response = await cluster.connect().ask(request, 5)
    offset: int = response.topics[0].partitions[0].offset
    return offset


def fetch(offset: int, wait_ms: int = 0) -> FetchRequest:
    partition = FetchRequest.Topic.Partition(partition=0, fetch_offset=offset, partition_max_bytes=1_000)
    topic = FetchRequest.Topic(topic="t", partitions=[partition])
    return FetchRequest(replica_id=-1, max_wait_ms=wait_ms, min_bytes=1, topics=[topic])


async def test_deleted_records_are_out_of_range() -> None:
    async with open_cluster(topics={"t": 1}) as cluster:
        for value in "abc":  # one batch for each record
            cluster.produce("t", [value])
        assert cluster.delete_records("t", 0, before=2) == 2
        assert [record.value for record in cluster.records("t")] == [b"c"]
        assert await earliest(cluster) == 2
        response = await cluster.connect().ask(fetch(0), 11)
        assert response.responses[0].partitions[0].error_code == E.OFFSET_OUT_OF_RANGE


async def test_lost_records_are_assigned_again() -> None:
    async with open_cluster(topics={"t": 1}, brokers=2) as cluster:
        for value in "abc":  # one batch for each record
            cluster.produce("t", [value])
        assert cluster.lose_records("t", 0, 2) == 1
        assert cluster.produce("t", ["d"]) == [1]
        assert [record.value for record in cluster.records("t")] == [b"a", b"d"]
        assert cluster.lose_records("t", 0, 100) == 0
        with pytest.raises(InternalTopicError):
            cluster.lose_records("__consumer_offsets", 0, 1)
        with pytest.raises(UnknownTopicError):
            cluster.lose_records("t", 1, 1)


async def test_all_records_are_deleted_and_remain_deleted(tmp_path: Path) -> None:
    async with open_cluster(topics={"t": 1}, data_dir=tmp_path) as cluster:
        cluster.produce("t", ["a", "b"])
        assert cluster.delete_records("t", 0, before=-1) == 2
    async with open_cluster(topics={"t": 1}, data_dir=tmp_path) as cluster:
        assert (cluster.records("t"), await earliest(cluster)) == ([], 2)


async def test_offset_of_deleted_records_is_an_integer() -> None:
    async with open_cluster(topics={"t": 1}) as cluster:
        cluster.produce("t", ["a", "b"])
        with pytest.raises(TypeError, match=r"offset 1\.5 of t-0 is not an integer"):
            cluster.delete_records("t", 0, 1.5)  # type: ignore[arg-type]
        assert len(cluster.records("t")) == 2


async def test_names_of_a_new_topic_are_texts() -> None:
    async with open_cluster() as cluster:
        with pytest.raises(SettingsError, match="the name 5 is not a str"):
            cluster.create_topic("t", 1, {5: 1})  # type: ignore[dict-item]
        with pytest.raises(SettingsError, match="topic 5: not a legal topic name"):
            cluster.create_topic(5)  # type: ignore[arg-type]


@pytest.mark.parametrize("before", [-2, 2])
async def test_records_out_of_range_are_not_deleted(before: int) -> None:
    async with open_cluster(topics={"t": 1}) as cluster:
        cluster.produce("t", ["a"])
        with pytest.raises(ValueError, match=f"before offset {before}: expected -1 to 1"):
            cluster.delete_records("t", 0, before)
        assert len(cluster.records("t")) == 1


async def test_a_deleted_topic_is_gone_with_its_offsets() -> None:
    async with open_cluster(topics={"t": 1, "u": 1}) as cluster:
        cluster.set_committed("g", {("t", 0): 1, ("u", 0): 2})
        cluster.delete_topic("t")
        assert cluster.committed("g") == {("u", 0): 2}
        with pytest.raises(UnknownTopicError, match="topic 't' does not exist; existing topics: u"):
            cluster.delete_topic("t")
        cluster.create_topic("t")
        assert cluster.records("t") == []


async def test_pending_fetch_of_a_deleted_topic_is_answered() -> None:
    async with open_cluster(topics={"t": 1}) as cluster, trio.open_nursery() as nursery:

        @nursery.start_soon
        async def _() -> None:
            response = await cluster.connect().ask(fetch(0, wait_ms=60_000), 11)
            assert response.responses[0].partitions[0].error_code == E.UNKNOWN_TOPIC_OR_PARTITION

        await trio.testing.wait_all_tasks_blocked()
        cluster.delete_topic("t")


async def test_internal_topics_are_kept() -> None:
    async with open_cluster() as cluster:
        with pytest.raises(InternalTopicError, match="topic __consumer_offsets cannot be deleted"):
            cluster.delete_topic("__consumer_offsets")
        with pytest.raises(ConflictError, match="topic __consumer_offsets cannot be truncated"):
            cluster.delete_records("__consumer_offsets", 0, -1)
        with pytest.raises(ConflictError, match="topic __consumer_offsets cannot be written"):
            cluster.produce("__consumer_offsets", ["tea"])
        assert cluster.records("__consumer_offsets") == []


async def test_an_unencodable_record_leaves_all_partitions_unchanged() -> None:
    async with open_cluster(topics={"t": 2}) as cluster:
        unencodable = Record(value=b"milk", timestamp=2**63, partition=1)
        with pytest.raises(EncodeError, match="does not fit into 64 bits"):
            cluster.produce("t", [Record(value=b"tea", partition=0), unencodable])
        assert cluster.records("t") == []


async def test_large_batches_are_split() -> None:
    async with open_cluster() as cluster:
        cluster.create_topic("t", 1, {"max.message.bytes": 200})
        assert cluster.produce("t", [bytes(100)] * 5) == [0, 1, 2, 3, 4]
        with pytest.raises(ValueError, match="record 1 is not appended: its batch has 270 bytes"):
            cluster.produce("t", [bytes(100), bytes(200)])
        assert len(cluster.records("t")) == 5


async def test_log_append_time_replaces_timestamps() -> None:
    async with open_cluster() as cluster:
        cluster.create_topic("t", 1, {"message.timestamp.type": "LogAppendTime"})
        cluster.produce("t", ["tea"], timestamp=5)
        [record] = cluster.records("t")
        assert record.timestamp is not None
        assert record.timestamp > 5


async def test_an_existing_topic_is_a_conflict_and_a_settings_error() -> None:
    async with open_cluster(topics={"t": 1}) as cluster:
        with pytest.raises(TopicExistsError) as raised:
            cluster.create_topic("t")
        assert isinstance(raised.value, SettingsError)
        assert isinstance(raised.value, ConflictError)


async def test_a_colliding_topic_is_a_conflict() -> None:
    async with open_cluster(topics={"a.b": 1}) as cluster:
        with pytest.raises(TopicExistsError, match=r"topic a_b collides with topic a\.b"):
            cluster.create_topic("a_b")
        with pytest.raises(UnknownTopicError):
            cluster.records("a_b")


async def test_retention_and_compaction_on_demand(autojump_clock: trio.testing.MockClock) -> None:
    async with open_cluster(clock="manual") as cluster:
        cluster.create_topic("orders", config={"retention.ms": 60_000, "segment.ms": 1_000})
        cluster.create_topic("accounts", config={"cleanup.policy": "compact"})
        cluster.produce("orders", ["old"])
        cluster.produce("accounts", ["1", "2"], key=b"alice")
        await cluster.clock.advance(61)
        cluster.produce("orders", ["new"])
        assert cluster.run_retention() == {("orders", 0): 1}
        assert cluster.run_retention("orders") == {}
        await cluster.compact()
        assert [record.value for record in cluster.records("accounts")] == [b"2"]
        assert [record.value for record in cluster.records("orders")] == [b"new"]


async def test_first_retention_check_is_an_interval_after_the_start(autojump_clock: trio.testing.MockClock) -> None:
    autojump_clock.jump(290)  # ten seconds before a multiple of the interval
    async with open_cluster(topics={"t": 1}) as cluster:
        cluster.produce("t", ["of 1970"], timestamp=1_000)
        await trio.sleep(299)
        assert await earliest(cluster) == 0
        await trio.sleep(2)
        assert await earliest(cluster) == 1


async def test_compaction_on_demand_serves_other_requests(autojump_clock: trio.testing.MockClock) -> None:
    async with open_cluster() as cluster:
        cluster.create_topic("t", config={"cleanup.policy": "compact"})
        for number in range(30):
            cluster.produce("t", [b"%d" % number] * 500, key=b"k")
        pauses = 0

        async def count_pauses() -> None:
            nonlocal pauses
            while True:
                pauses += 1
                await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(count_pauses)
            await cluster.compact("t")
            nursery.cancel_scope.cancel()
        assert pauses > 3
        assert [record.offset for record in cluster.records("t")] == [14_999]
