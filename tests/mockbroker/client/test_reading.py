"""Reading with a whole consumer, in virtual time: poll, iteration, and positions during both."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest
import trio
import trio.testing
from tools.fake_cluster import BOOTSTRAP_PORT
from tools.in_process_streams import InProcessNetwork

from kwire.envelope import decode_request
from kwire.frames import FrameBuffer
from kwire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from kwire.messages.add_partitions_to_txn import Topic as AddedTopic
from kwire.messages.end_txn import EndTxnRequest
from kwire.messages.fetch import FetchRequest
from kwire.messages.init_producer_id import InitProducerIdRequest
from kwire.messages.produce import ProduceRequest
from kwire.records import Record, build_batch
from mockbroker import Cluster, open_cluster
from mockbroker.consumer import Consumer, CorruptRecord, IllegalUse, NoOffset, OffsetAndMetadata, Wakeup, open_consumer

T0, T1 = ("t", 0), ("t", 1)
QUICK = {"group.initial.rebalance.delay.ms": 0, "mockbroker.join.settle.ms": 0}


@asynccontextmanager
async def cluster_with(counts: dict[tuple[str, int], int], *, brokers: int = 1) -> AsyncIterator[Any]:
    """Open a cluster with this number of records in each partition. Each value is the record's offset."""
    topics: dict[str, int] = {}
    for name, number in counts:
        topics[name] = max(topics.get(name, 0), number + 1)
    async with open_cluster(brokers=brokers, topics=topics, config=QUICK) as cluster:
        for (name, number), count in counts.items():
            if count:
                cluster.produce(name, [b"%d" % n for n in range(count)], partition=number)
        with trio.fail_after(60):  # in case the test hangs
            yield cluster


@asynccontextmanager
async def reader(cluster: Cluster, *partitions: Any, **options: Any) -> AsyncIterator[Any]:
    usual = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "fetch_max_wait": 0.05}
    options = usual | {"connect": InProcessNetwork(cluster).connect} | options
    async with open_consumer(cluster.bootstrap_servers, partitions=partitions, **options) as consumer:
        yield consumer


async def final_position(consumer: Consumer, partition: tuple[str, int]) -> int:
    """Return the position once it is known. Check that polls return no records before that."""
    while (at := consumer.position(partition)) is None:
        assert await consumer.poll(0.05) == []
    return at


async def read(consumer: Consumer, count: int) -> list[tuple[int, int]]:
    """Return the partitions and offsets of the next records."""
    places: list[tuple[int, int]] = []
    while len(places) < count:
        places += [(record.partition, record.offset) for record in await consumer.poll()]
    return places


# poll


async def test_poll_without_records_returns_after_its_timeout(autojump_clock):
    async def connect_silent_peer(host: str, port: int) -> trio.abc.Stream:
        here, there = trio.testing.memory_stream_pair()
        silent.append(there)
        return here

    silent: list[trio.abc.Stream] = []
    async with open_consumer(f"127.0.0.1:{BOOTSTRAP_PORT}", partitions=[T0], connect=connect_silent_peer) as consumer:
        before = trio.current_time()
        assert await consumer.poll(5.0) == []
        assert trio.current_time() == before + 5.0
        assert await consumer.poll(0.0) == []
        assert trio.current_time() == before + 5.0


async def test_poll_returns_as_soon_as_records_arrive(autojump_clock):
    async with (
        cluster_with({T0: 0, T1: 0}) as cluster,
        reader(cluster, T0, T1, fetch_max_wait=60.0) as consumer,
        trio.open_nursery() as nursery,
    ):
        places: list[tuple[int, int]] = []

        async def poll() -> None:
            places.extend(await read(consumer, 1))

        nursery.start_soon(poll)
        await trio.sleep(1)
        assert places == []
        cluster.produce("t", [b"x"], partition=1)
        while not places:
            await trio.sleep(0)
        assert places == [(1, 0)]


class FetchRecordingStream(trio.abc.Stream):
    """A stream that records the offsets of each Fetch when it is sent."""

    def __init__(self, stream: trio.abc.Stream, fetches: list[list[int]]) -> None:
        self._stream, self._fetches, self._frames = stream, fetches, FrameBuffer()

    async def send_all(self, data: bytes) -> None:
        self._frames.feed(bytes(data))
        while (frame := self._frames.next_frame()) is not None:
            body = decode_request(frame).body
            if isinstance(body, FetchRequest) and body.topics:
                self._fetches.append([line.fetch_offset for topic in body.topics for line in topic.partitions])
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        return await self._stream.receive_some(max_bytes)

    async def aclose(self) -> None:
        await self._stream.aclose()


async def test_next_fetch_is_sent_before_poll_returns(autojump_clock):
    """The broker can work on the Fetch even if the user does not wait after the poll."""
    fetches: list[list[int]] = []

    async def connect(host: str, port: int) -> trio.abc.Stream:
        return FetchRecordingStream(await InProcessNetwork(cluster).connect(host, port), fetches)

    async with cluster_with({T0: 0}) as cluster, reader(cluster, T0, connect=connect) as consumer:
        for number in range(40):
            cluster.produce("t", [b"x"], partition=0)
            (record,) = await consumer.poll()
            assert record.offset == number
            assert fetches[-1] == [number + 1]


async def test_poll_returns_at_most_max_poll_records(autojump_clock):
    async with cluster_with({T0: 1200}) as cluster, reader(cluster, T0) as consumer:
        polls = [await consumer.poll() for _ in range(3)]
        assert [len(some) for some in polls] == [500, 500, 200]
        assert [record.value for some in polls for record in some] == [b"%d" % n for n in range(1200)]
        assert [consumer.position(T0), consumer.lag(T0)] == [1200, 0]


async def test_buffered_records_are_returned_without_waiting(autojump_clock):
    """Poll returns them even if the broker is down and the timeout is 0."""
    async with cluster_with({T0: 1200}) as cluster, reader(cluster, T0) as consumer:
        assert len(await consumer.poll()) == 500
        cluster.kill_broker(0)
        assert [len(await consumer.poll(0.0)) for _ in range(3)] == [500, 200, 0]


async def test_ten_partitions_on_three_brokers(autojump_clock):
    counts = {("t", n): 20 for n in range(10)}
    async with cluster_with(counts, brokers=3) as cluster, reader(cluster, *counts) as consumer:
        places = await read(consumer, 200)
        assert sorted(places) == [(p, o) for p in range(10) for o in range(20)]
        for number in range(10):
            assert [offset for p, offset in places if p == number] == list(range(20))


async def test_cancelled_poll_loses_no_records(autojump_clock):
    """The next poll returns the records, whether the cancellation came before the poll or while it waited."""
    async with cluster_with({T0: 30}) as cluster, reader(cluster, T0, max_poll_records=5) as consumer:
        places = await read(consumer, 5)
        for _ in range(8):
            with trio.CancelScope() as scope:
                scope.cancel()
                places += [(record.partition, record.offset) for record in await consumer.poll()]
            with trio.move_on_after(0.001):
                places += [(record.partition, record.offset) for record in await consumer.poll()]
        while len(places) < 30:
            places += await read(consumer, 1)
        assert places == [(0, n) for n in range(30)]


class CountingInterceptor:
    def __init__(self) -> None:
        self.seen: list[int] = []

    def on_consume(self, records: Any) -> list[Any]:
        self.seen.append(len(records))
        return [record for record in records if record.offset % 2]


async def test_interceptors_see_records_first(autojump_clock):
    counting, second = CountingInterceptor(), CountingInterceptor()
    async with (
        cluster_with({T0: 10}) as cluster,
        reader(cluster, T0, interceptors=[counting, second]) as consumer,
    ):
        assert [record.offset for record in await consumer.poll()] == [1, 3, 5, 7, 9]
        assert (counting.seen, second.seen, consumer.position(T0)) == ([10], [5], 10)


class FailingInterceptor:
    def on_consume(self, records: Any) -> None:
        raise RuntimeError(f"not today: {len(records)}")


async def test_records_of_a_failed_interceptor_are_read_again(autojump_clock):
    async with cluster_with({T0: 10}) as cluster, reader(cluster, T0, interceptors=[FailingInterceptor()]) as consumer:
        for _ in range(2):
            with pytest.raises(RuntimeError, match="not today"):
                await consumer.poll()
            assert consumer.position(T0) == 0
        with pytest.raises(RuntimeError, match="not today"):
            await anext(consumer)
        consumer._interceptors.clear()
        assert await read(consumer, 10) == [(0, n) for n in range(10)]


# Iteration


async def test_position_commit_and_lag_inside_an_iteration(autojump_clock):
    """Records that were not returned yet are after the position: they are not committed, and count as lag."""
    async with cluster_with({T0: 10}) as cluster, reader(cluster, T0, group="g") as consumer:
        async for record in consumer:
            if record.offset == 3:
                assert (consumer.position(T0), consumer.lag(T0)) == (4, 6)
                await consumer.commit()
                assert cluster.committed("g") == {T0: 4}
            if record.offset == 9:
                break
        await consumer.commit()
        assert cluster.committed("g") == {T0: 10}


async def test_records_that_an_iteration_left_are_read_again(autojump_clock):
    """After a break, poll continues where the loop stopped, and closing commits no later offset."""
    async with cluster_with({T0: 10, T1: 10}) as cluster:
        async with reader(cluster, T0, T1, group="g", enable_auto_commit=True) as consumer:
            count = 0
            async for _ in consumer:
                count += 1
                if count == 13:
                    break
        assert sum(cluster.committed("g").values()) == 13
        async with reader(cluster, T0, T1, group="g") as consumer:
            async for _ in consumer:
                count += 1
                if count == 15:
                    break
            assert len(await read(consumer, 5)) == 5
            assert (consumer.position(T0), consumer.position(T1)) == (10, 10)


async def test_subscription_inside_an_iteration_drops_its_records(autojump_clock):
    async with cluster_with({T0: 3, ("u", 0): 3}) as cluster, reader(cluster, group="g") as consumer:
        await consumer.subscribe(["t"])
        assert (await anext(consumer)).topic == "t"
        await consumer.subscribe(["u"])
        record = await anext(consumer)
        assert (record.topic, record.offset) == ("u", 0)


async def test_assignment_inside_an_iteration_drops_its_records(autojump_clock):
    async with cluster_with({T0: 3, T1: 3}) as cluster, reader(cluster, T0) as consumer:
        assert (await anext(consumer)).partition == 0
        await consumer.assign([T1])
        record = await anext(consumer)
        assert (record.partition, record.offset) == (1, 0)


async def test_close_of_a_consumer_with_a_fetch_session_is_quick(autojump_clock):
    async with cluster_with({T0: 3}) as cluster, reader(cluster, T0) as consumer:
        await read(consumer, 3)
        before = trio.current_time()
        await consumer.close()
        assert trio.current_time() - before < 1.0


@pytest.mark.parametrize("end", ["close", "unsubscribe"])
async def test_end_of_an_iteration_commits_the_returned_records(autojump_clock, end):
    options = {"group": "g", "enable_auto_commit": True}
    async with cluster_with({T0: 5}) as cluster, reader(cluster, T0, **options) as consumer:
        for _ in range(2):
            await anext(consumer)
        await getattr(consumer, end)()
        assert cluster.committed("g") == {T0: 2}


async def test_seek_inside_an_iteration(autojump_clock):
    """One partition is read again. The other is not affected."""
    async with cluster_with({T0: 10, T1: 10}) as cluster, reader(cluster, T0, T1) as consumer:
        seen: dict[int, list[int]] = {0: [], 1: []}
        async for record in consumer:
            seen[record.partition].append(record.offset)
            if seen[record.partition] == [0, 1, 2, 3, 4] and record.partition == 0:
                consumer.seek(T0, 2)
            if len(seen[0]) + len(seen[1]) == 23:
                break
        assert seen == {0: [0, 1, 2, 3, 4, *range(2, 10)], 1: list(range(10))}
        assert await consumer.poll(1) == []


async def test_pause_inside_an_iteration(autojump_clock):
    """The remaining records of that partition are held back, then returned once."""
    async with cluster_with({T0: 10, T1: 10}) as cluster, reader(cluster, T0, T1) as consumer:
        seen: list[tuple[int, int]] = []
        first = -1
        async for record in consumer:
            seen.append((record.partition, record.offset))
            if len(seen) == 3:
                first = record.partition
                consumer.pause(("t", first))
                assert consumer.paused == {("t", first)}
                assert consumer.position(("t", first)) == 3
            if len(seen) == 13:
                assert seen[3:] == [(1 - first, n) for n in range(10)]
                consumer.resume(("t", first))
            if len(seen) == 20:
                break
        assert seen[13:] == [(first, n) for n in range(3, 10)]


async def test_seek_to_beginning_and_end_inside_an_iteration(autojump_clock):
    async with cluster_with({T0: 10}) as cluster, reader(cluster, T0) as consumer:
        seen = []
        async for record in consumer:
            seen.append(record.offset)
            if len(seen) == 3:
                consumer.seek_to_beginning(T0)
                assert (consumer.position(T0), consumer.lag(T0)) == (None, None)
            if len(seen) == 5:
                consumer.seek_to_end(T0)
                assert await final_position(consumer, T0) == 10
                cluster.produce("t", [b"new"], partition=0)
            if len(seen) == 6:
                break
        assert seen == [0, 1, 2, 0, 1, 10]


# Positions


async def test_seek_forward_back_and_by_time(autojump_clock):
    """The seeks skip old records, read again from the beginning, and start at a timestamp."""
    async with cluster_with({T0: 0}) as cluster:
        for number in range(10):
            cluster.produce("t", [b"%d" % number], partition=0, timestamp=1_000 + number)
        async with reader(cluster, T0) as consumer:
            consumer.seek(T0, 7)
            assert await read(consumer, 3) == [(0, 7), (0, 8), (0, 9)]
            consumer.seek_to_beginning()
            assert await read(consumer, 10) == [(0, n) for n in range(10)]
            consumer.seek_to_time(1_004, T0)
            assert await read(consumer, 6) == [(0, n) for n in range(4, 10)]
            consumer.seek_to_end()
            assert await final_position(consumer, T0) == 10
            assert await consumer.beginning_offsets(T0) == {T0: 0}
            assert await consumer.end_offsets(T0) == {T0: 10}
            offsets = await consumer.offsets_for_times({T0: 1_006})
            assert offsets[T0] is not None
            assert (offsets[T0].offset, offsets[T0].timestamp) == (6, 1_006)
            with pytest.raises(ValueError, match="timestamp -1 of t-0 is negative"):
                await consumer.offsets_for_times({T0: -1})
            first = await consumer.offsets_for_times({T0: 0})
            assert first[T0] is not None
            assert first[T0].offset == 0


async def test_failed_processing_resumes_at_the_last_good_record(autojump_clock):
    """A seek of one partition causes no rebalance and does not affect the other partition."""
    async with cluster_with({T0: 10, T1: 10}) as cluster:
        network = InProcessNetwork(cluster)
        options: dict[str, Any] = {"group": "g", "topics": ["t"], "connect": network.connect}
        async with open_consumer(
            cluster.bootstrap_servers, auto_offset_reset="earliest", enable_auto_commit=False, **options
        ) as consumer:
            done: list[tuple[int, int]] = []
            failed = False
            async for record in consumer:
                if (record.partition, record.offset) == (0, 6) and not failed:
                    failed = True
                    done = [each for each in done if each[0] or each[1] < 4]  # the user rolls back to offset 4
                    consumer.seek(T0, 4)
                    continue
                done.append((record.partition, record.offset))
                if len(done) == 20:
                    break
            assert sorted(done) == [(p, o) for p in range(2) for o in range(10)]
            assert [offset for p, offset in done if p == 0] == list(range(10))
        assert [event.event for event in cluster.events() if event.event == "join"] == ["join"]


async def test_paused_partition_waits_while_the_other_is_read(autojump_clock):
    """A paused partition returns no records and loses none, so users can give partitions priorities."""
    async with cluster_with({T0: 40, T1: 40}) as cluster, reader(cluster, T0, T1, max_poll_records=7) as consumer:
        consumer.seek(T0, 30)
        consumer.pause(T0)
        behind = await read(consumer, 30)
        assert behind == [(1, n) for n in range(len(behind))]
        consumer.pause(T1)
        consumer.resume(T0)
        assert await read(consumer, 10) == [(0, n) for n in range(30, 40)]
        consumer.resume(T1)
        at = len(behind)
        assert await read(consumer, 40 - at) == [(1, n) for n in range(at, 40)]


# Offsets of the group


async def test_restarted_consumer_resumes_at_committed_offsets(autojump_clock):
    """The next owner of the partitions fetches the group's offsets."""
    async with cluster_with({T0: 10, T1: 10}) as cluster:
        async with reader(cluster, T0, T1, group="g", max_poll_records=4) as consumer:
            await read(consumer, 4)
            await consumer.commit({T0: 4, T1: OffsetAndMetadata(7, "here")})
            assert cluster.committed("g") == {T0: 4, T1: 7}
        async with reader(cluster, T0, T1, group="g") as consumer:
            assert sorted(await read(consumer, 9)) == [(0, n) for n in range(4, 10)] + [(1, n) for n in range(7, 10)]
            committed = await consumer.committed(T0, T1)
            assert [committed[p].offset for p in (T0, T1)] == [4, 7]
            assert committed[T1].metadata == "here"


@pytest.mark.parametrize(("policy", "first"), [("earliest", 0), ("latest", 10)])
async def test_auto_offset_reset_of_a_new_group(autojump_clock, policy, first):
    async with cluster_with({T0: 10}) as cluster, reader(cluster, T0, group="g", auto_offset_reset=policy) as consumer:
        if policy == "latest":
            assert await final_position(consumer, T0) == 10
        cluster.produce("t", [b"10"], partition=0)
        assert await read(consumer, 11 - first) == [(0, n) for n in range(first, 11)]


async def test_auto_offset_reset_none_raises(autojump_clock):
    """It raises without a committed offset, and with a position that is out of range."""
    async with cluster_with({T0: 10}) as cluster, reader(cluster, T0, group="g", auto_offset_reset="none") as consumer:
        with pytest.raises(NoOffset, match="no committed offset"):
            await consumer.poll()
        consumer.seek(T0, 500)
        with pytest.raises(NoOffset, match=r"out of range.*t-0 at 500"):
            await consumer.poll()
        consumer.seek(T0, 8)
        assert await read(consumer, 2) == [(0, 8), (0, 9)]


async def test_synchronous_and_asynchronous_commits(autojump_clock):
    async with cluster_with({T0: 10}) as cluster, reader(cluster, T0, group="g", max_poll_records=2) as consumer:
        called: list[int] = []
        for _ in range(3):
            await read(consumer, 2)
            consumer.commit_nowait(then=lambda offsets, error: called.append((offsets[T0].offset, error)))
            assert called == []
        await consumer.commit({T0: 9})
        assert cluster.committed("g") == {T0: 9}, "earlier commits are stored first"
        assert called == [(2, None), (4, None), (6, None)]


async def test_assign_and_subscribe_exclude_each_other(autojump_clock):
    async with cluster_with({T0: 1}) as cluster, reader(cluster, group="g") as consumer:
        await consumer.assign([T0])
        with pytest.raises(IllegalUse):
            await consumer.subscribe(["t"])
        await consumer.unsubscribe()
        await consumer.subscribe(["t"])
        with pytest.raises(IllegalUse):
            await consumer.assign([T0])


async def test_read_up_to_the_end_offsets_then_close(autojump_clock):
    """The consumer reads up to the end offsets at the start, and no further."""
    async with cluster_with({T0: 25, T1: 5}) as cluster:
        async with reader(cluster, T0, T1, group="g", enable_auto_commit=True, max_poll_records=3) as consumer:
            ends = await consumer.end_offsets(T0, T1)
            records = []
            while any((consumer.position(p) or 0) < end for p, end in ends.items()):
                records += await consumer.poll(0.5)
        assert len(records) == 30
        assert cluster.committed("g") == {T0: 25, T1: 5}


# Transactions of a real producer, and corrupt batches


async def transaction(cluster: Cluster, count: int, *, committed: bool | None) -> None:
    """Write a transaction whose records are 'committed', 'aborted' or, with None, 'open'."""
    line = cluster.connect()
    name = {True: "committed", False: "aborted", None: "open"}[committed]
    made = await line.ask(InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000), 4)
    producer = {"transactional_id": name, "producer_id": made.producer_id, "producer_epoch": made.producer_epoch}
    fields = producer | {"topics": [AddedTopic(name="t", partitions=[0])]}
    await line.ask(AddPartitionsToTxnRequest(**{f"v3_and_below_{key}": value for key, value in fields.items()}), 3)
    batch = build_batch(
        [Record(value=name.encode())] * count,
        producer_id=made.producer_id,
        producer_epoch=made.producer_epoch,
        base_sequence=0,
        transactional=True,
    )
    data = ProduceRequest.Topic.Partition(index=0, records=batch)
    topic = ProduceRequest.Topic(name="t", partition_data=[data])
    answer = await line.ask(ProduceRequest(transactional_id=name, acks=-1, timeout_ms=1000, topic_data=[topic]), 9)
    assert answer.responses[0].partition_responses[0].error_code == 0
    if committed is not None:
        assert (await line.ask(EndTxnRequest(**producer, committed=committed), 3)).error_code == 0


async def test_read_committed_stops_at_open_transactions(autojump_clock):
    """read_committed skips aborted records, and the position stops before an open transaction."""
    async with cluster_with({T0: 2}) as cluster:
        await transaction(cluster, 3, committed=False)
        await transaction(cluster, 2, committed=True)
        await transaction(cluster, 4, committed=False)
        await transaction(cluster, 2, committed=None)
        cluster.produce("t", [b"plain"], partition=0)
        async with reader(cluster, T0, isolation_level="read_committed", max_poll_records=3) as consumer:
            values = [record.value async for record in limited(consumer, 4)]
            assert values == [b"0", b"1", b"committed", b"committed"]
            assert await consumer.poll(0.2) == []
            stable = (await consumer.end_offsets(T0))[T0]
            assert (consumer.position(T0), consumer.lag(T0)) == (stable, 0)
        async with reader(cluster, T0) as consumer:
            values = [record.value async for record in limited(consumer, 14)]
            assert sorted(set(values)) == [b"0", b"1", b"aborted", b"committed", b"open", b"plain"]


async def limited(consumer: Consumer, count: int) -> AsyncIterator[Any]:
    while count:
        yield await anext(consumer)
        count -= 1


async def test_seek_skips_a_corrupt_batch(autojump_clock):
    """Each poll raises the error and keeps the position. The batches before and after it are read."""
    async with cluster_with({T0: 3}) as cluster:
        cluster.produce("t", [b"3", b"4"], partition=0)
        cluster.produce("t", [b"5"], partition=0)
        async with reader(cluster, T0) as consumer:
            corrupt_batch(consumer, 3)
            assert await read(consumer, 3) == [(0, 0), (0, 1), (0, 2)]
            for _ in range(2):
                with pytest.raises(CorruptRecord, match="t-0 at offset 3"):
                    await consumer.poll()
                assert consumer.position(T0) == 3
            consumer.seek(T0, 5)
            assert await read(consumer, 1) == [(0, 5)]


def corrupt_batch(consumer: Consumer, base: int) -> None:
    """Flip one bit of this batch in all later responses."""
    fetcher = consumer._engine.fetcher
    right = fetcher._response_partitions

    def lines(answer: Any, version: int, wanted: Any) -> Any:
        partitions = right(answer, version, wanted)
        for _, line in partitions or []:
            at = (line.records or b"").find(base.to_bytes(8, "big"))
            if at >= 0:
                line.records = line.records[: at + 30] + bytes([line.records[at + 30] ^ 1]) + line.records[at + 31 :]
        return partitions

    fetcher._response_partitions = lines


async def test_order_within_a_partition(autojump_clock):
    """Offsets only increase, for any number of records, responses and polls."""
    async with cluster_with({T0: 3000, T1: 3000}, brokers=2) as cluster:
        async with reader(cluster, T0, T1, max_poll_records=137, max_partition_fetch_bytes=9_000) as consumer:
            places = await read(consumer, 6000)
        for number in range(2):
            assert all(after == before + 1 for before, after in pairwise(o for p, o in places if p == number))


async def test_log_without_timestamps_has_no_offsets(autojump_clock):
    """Kafka answers UNSUPPORTED_FOR_MESSAGE_FORMAT for records of format v0."""
    async with cluster_with({T0: 3, T1: 3}) as cluster, reader(cluster, T0) as consumer:
        cluster.faults.add(api="ListOffsets", error="UNSUPPORTED_FOR_MESSAGE_FORMAT", partition=1, times="always")
        assert await consumer.beginning_offsets(T0, T1) == {T0: 0}
        assert await consumer.end_offsets(T0, T1) == {T0: 3}
        assert (await consumer.offsets_for_times({T0: 0, T1: 0}))[T1] is None


async def test_timestamp_0_is_the_earliest(autojump_clock):
    async with cluster_with({T0: 3}) as cluster, reader(cluster, T0) as consumer:
        found = (await consumer.offsets_for_times({T0: 0}))[T0]
        assert found
        assert found.offset == 0
        await read(consumer, 3)
        consumer.seek_to_time(0)
        assert await read(consumer, 3) == [(0, 0), (0, 1), (0, 2)]
        with pytest.raises(ValueError, match="timestamp -1 of t-0 is negative"):
            await consumer.offsets_for_times({T0: -1})
        with pytest.raises(ValueError, match="timestamp -1 is negative"):
            consumer.seek_to_time(-1)


async def test_next_assignment_commits_the_positions_before(autojump_clock):
    options: Any = {"group": "g", "enable_auto_commit": True}
    async with cluster_with({T0: 3, T1: 3}) as cluster, reader(cluster, T0, **options) as consumer:
        await read(consumer, 3)
        await consumer.assign([T1])
        assert not consumer._engine.committer._unfinished[0].retried
        await consumer.poll(0.5)
        assert cluster.committed("g") == {T0: 3}


async def test_seek_to_the_beginning_of_one_partition(autojump_clock):
    async with cluster_with({T0: 2, T1: 2}) as cluster, reader(cluster, T0, T1) as consumer:
        await read(consumer, 4)
        consumer.seek_to_beginning(T0)
        assert (consumer.position(T0), consumer.position(T1)) == (None, 2)
        assert await read(consumer, 2) == [(0, 0), (0, 1)]
        consumer.seek_to_end(T1)
        assert (consumer.position(T0), consumer.position(T1)) == (2, None)


async def test_lag_is_unknown_before_the_first_fetch(autojump_clock):
    async with cluster_with({T0: 3}) as cluster, reader(cluster, T0) as consumer:
        assert (consumer.position(T0), consumer.lag(T0)) == (None, None)
        consumer.seek(T0, 1)
        assert (consumer.position(T0), consumer.lag(T0)) == (1, None)
        await read(consumer, 2)
        await consumer.poll(0.2)
        assert consumer.lag(T0) == 0


async def test_reset_position_is_not_moved_back_to_unreturned_records(autojump_clock):
    async with cluster_with({T0: 3}) as cluster, reader(cluster, T0) as consumer:
        assert (await anext(consumer)).offset == 0
        assert consumer.position(T0) == 1
        position = consumer._engine.positions.of(T0)
        position.reset_to(-1)
        consumer._discard_unreturned()
        assert (position.offset, position.reset_timestamp) == (None, -1)


async def test_wakeup_precedes_buffered_records(autojump_clock):
    async with cluster_with({T0: 4}) as cluster, reader(cluster, T0, max_poll_records=2) as consumer:
        assert len(await consumer.poll()) == 2
        consumer.wakeup()
        with pytest.raises(Wakeup):
            await consumer.poll()
        assert [record.offset for record in await consumer.poll()] == [2, 3]


async def test_lookup_does_not_wait_for_the_next_timer(autojump_clock):
    async with cluster_with({T0: 4}) as cluster, reader(cluster, group="g") as consumer:
        assert await consumer.partitions_for("t") == 1
        await trio.sleep(30.0)
        for lookup in (consumer.committed, consumer.end_offsets, consumer.beginning_offsets):
            before = trio.current_time()
            await lookup(T0)
            assert trio.current_time() - before < 0.5
            await trio.sleep(1.0)
        before = trio.current_time()
        await consumer.commit({T0: 1})
        assert trio.current_time() - before < 0.5


async def test_poll_after_a_long_pause_commits_at_once(autojump_clock):
    options = {"group": "g", "enable_auto_commit": True}
    async with cluster_with({T0: 4}) as cluster, reader(cluster, T0, **options) as consumer:
        while not await consumer.poll():
            pass
        await trio.sleep(20.0)
        await consumer.poll(0)
        await trio.sleep(0.1)
        assert len(cluster.requests("OffsetCommit")) == 1
