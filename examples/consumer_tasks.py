"""Concurrent processing: a consumer for each task, or one consumer with workers that read from channels.

one by one      a consumer for each task: simple, in order; more connections, and at most as many tasks as partitions
one channel     one consumer, workers that share a channel: any number of workers, and the order is lost
by partition    one consumer, a channel for each worker, chosen by the hash of the partition: in order

With workers, an offset may be committed only if all records before it are processed: ``Done`` counts these.
"""

import trio
from orders import MEMBER, fresh, new_topic, run

from mockbroker.consumer import ConsumerRecord, TopicPartition, open_consumer

PARTITIONS, EACH, WORKERS = 4, 50, 8
RECORDS = PARTITIONS * EACH
ROOM = 10  # records in a channel; the consumer waits while it is full
SETTINGS = MEMBER | {"max_poll_records": 20}


class Done:
    """Finished records. ``order``: their offsets by partition, in order; ``safe``: offsets that may be committed."""

    def __init__(self) -> None:
        self.order: dict[TopicPartition, list[int]] = {}
        self.safe: dict[TopicPartition, int] = {}
        self.count = self.polls = self.connections = 0

    def add(self, record: ConsumerRecord) -> None:
        partition = record.topic, record.partition
        done = self.order.setdefault(partition, [])
        done.append(record.offset)
        self.count += 1
        while self.safe.setdefault(partition, 0) in done:
            self.safe[partition] += 1

    async def connect(self, host: str, port: int) -> trio.abc.Stream:
        self.connections += 1
        return await trio.open_tcp_stream(host, port)

    def report(self, name: str, seconds: float) -> None:
        mixed = sum(order != sorted(order) for order in self.order.values())
        print(f"{name}: {self.count} records, order {f'lost in {mixed} partitions' if mixed else 'kept'}")
        polled = self.count / self.polls
        print(f"    {self.connections} connections, {polled:.1f} records a poll, {seconds:.2f} s", flush=True)


async def work(record: ConsumerRecord, done: Done) -> None:
    await trio.sleep(0.02 if record.offset % 5 == 0 else 0.002)  # every fifth record takes longer
    done.add(record)


async def one_by_one(bootstrap: str, group: str, topic: str, done: Done) -> None:
    """Run a member of the group that processes the records of each poll, with auto commit."""
    async with open_consumer(bootstrap, group=group, topics=[topic], connect=done.connect, **SETTINGS) as consumer:
        while done.count < RECORDS:
            records = await consumer.poll(0.05)
            done.polls += bool(records)
            for record in records:
                await work(record, done)


async def consumers(bootstrap: str, group: str, topic: str, done: Done) -> None:
    async with trio.open_nursery() as nursery:
        for _ in range(PARTITIONS):
            nursery.start_soon(one_by_one, bootstrap, group, topic, done)


async def workers(bootstrap: str, group: str, topic: str, done: Done, count: int) -> None:
    """Run one consumer whose workers share ``channels`` channels."""
    senders, receivers = zip(*(trio.open_memory_channel[ConsumerRecord](ROOM) for _ in range(count)), strict=True)

    async def serve(receiver: trio.MemoryReceiveChannel[ConsumerRecord]) -> None:
        async for record in receiver:
            await work(record, done)

    settings = SETTINGS | {"enable_auto_commit": False, "connect": done.connect}
    async with open_consumer(bootstrap, group=group, topics=[topic], **settings) as consumer:
        async with trio.open_nursery() as nursery:
            for n in range(WORKERS):
                nursery.start_soon(serve, receivers[n % count])
            handed = 0
            while handed < RECORDS:
                records = await consumer.poll()
                done.polls += 1
                for record in records:
                    await senders[hash(record.partition) % count].send(record)
                handed += len(records)
                consumer.commit_nowait(dict(done.safe))
            for sender in senders:
                sender.close()
        await consumer.commit(dict(done.safe))


async def show(bootstrap: str, name: str) -> None:
    topic, group, done = new_topic(bootstrap, *[range(EACH)] * PARTITIONS), fresh("billing"), Done()
    begun = trio.current_time()
    if name == "one by one":
        await consumers(bootstrap, group, topic, done)
    else:
        await workers(bootstrap, group, topic, done, 1 if name == "one channel" else WORKERS)
    done.report(name, trio.current_time() - begun)
    async with open_consumer(bootstrap, group=group) as consumer:
        committed = await consumer.committed(*((topic, number) for number in range(PARTITIONS)))
        print("    committed:", *(at and at.offset for at in committed.values()))


async def main(bootstrap: str) -> None:
    for name in ("one by one", "one channel", "by partition"):
        await show(bootstrap, name)


if __name__ == "__main__":
    run(main)
