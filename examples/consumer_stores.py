"""Three stores for offsets: ZooKeeper, as in Kafka 0.8; the topic ``__consumer_offsets``; an external database.

The same work with each: one consumer reads four records, and the next continues after them. The ZooKeeper store is a
dict of node paths, as consumers used them.
"""

import sqlite3
from typing import Protocol

from orders import MEMBER, fresh, new_topic, run

from kwire.blobs import decode_record
from kwire.blobs.offsets_topic import OffsetCommitKey, OffsetCommitValue
from mockbroker.consumer import Consumer, TopicPartition, open_consumer

OFFSETS_TOPIC = "__consumer_offsets"


class Store(Protocol):
    async def load(self, consumer: Consumer, group: str, partition: TopicPartition) -> int: ...
    async def save(self, consumer: Consumer, group: str, partition: TopicPartition, offset: int) -> None: ...


class InZooKeeper:
    def __init__(self) -> None:
        self.nodes: dict[str, bytes] = {}

    def path(self, group: str, partition: TopicPartition) -> str:
        return f"/consumers/{group}/offsets/{partition[0]}/{partition[1]}"

    async def load(self, consumer: Consumer, group: str, partition: TopicPartition) -> int:
        return int(self.nodes.get(self.path(group, partition), b"0"))

    async def save(self, consumer: Consumer, group: str, partition: TopicPartition, offset: int) -> None:
        self.nodes[self.path(group, partition)] = str(offset).encode()


class InKafka:
    async def load(self, consumer: Consumer, group: str, partition: TopicPartition) -> int:
        committed = (await consumer.committed(partition))[partition]
        return committed.offset if committed else 0

    async def save(self, consumer: Consumer, group: str, partition: TopicPartition, offset: int) -> None:
        await consumer.commit({partition: offset})


class InDatabase:
    def __init__(self) -> None:
        self.database = sqlite3.connect(":memory:")
        self.database.execute("CREATE TABLE offsets (reader TEXT, topic TEXT, number INTEGER, next INTEGER)")

    async def load(self, consumer: Consumer, group: str, partition: TopicPartition) -> int:
        rows = self.database.execute(
            "SELECT max(next) FROM offsets WHERE reader = ? AND topic = ? AND number = ?", (group, *partition)
        )
        return rows.fetchone()[0] or 0

    async def save(self, consumer: Consumer, group: str, partition: TopicPartition, offset: int) -> None:
        with self.database:
            self.database.execute("INSERT INTO offsets VALUES (?, ?, ?, ?)", (group, *partition, offset))


async def work(bootstrap: str, store: Store, group: str, partition: TopicPartition) -> list[int]:
    """Four records from where the store says."""
    settings = MEMBER | {"enable_auto_commit": False, "max_poll_records": 4}
    async with open_consumer(bootstrap, group=group, partitions=[partition], **settings) as consumer:
        consumer.seek(partition, await store.load(consumer, group, partition))
        records = await consumer.poll()
        await store.save(consumer, group, partition, records[-1].offset + 1)
    return [record.offset for record in records]


async def written(bootstrap: str, group: str) -> list[int]:
    """The offsets of a group as they stand in the log of the offsets topic, which is like any other."""
    async with open_consumer(bootstrap, isolation_level="read_committed", auto_offset_reset="earliest") as consumer:
        count = await consumer.partitions_for(OFFSETS_TOPIC)
        partitions = [(OFFSETS_TOPIC, number) for number in range(count)]
        ends = await consumer.end_offsets(*partitions)
        await consumer.assign(partition for partition in partitions if ends[partition])
        offsets = []
        while any((consumer.position(partition) or 0) < ends[partition] for partition in consumer.assignment):
            for record in await consumer.poll(0.1):
                match decode_record(OFFSETS_TOPIC, record.key, record.value):
                    case OffsetCommitKey(group=name), OffsetCommitValue(offset=offset) if name == group:
                        offsets.append(offset)
        return offsets


async def main(bootstrap: str) -> None:
    zookeeper, kafka, database = InZooKeeper(), InKafka(), InDatabase()
    for store in (zookeeper, kafka, database):
        group, partition = fresh("billing"), (new_topic(bootstrap, range(8)), 0)
        read = [await work(bootstrap, store, group, partition) for _ in range(2)]
        print(f"{type(store).__name__}: {read}; in Kafka's log: {await written(bootstrap, group)}")
    for path, data in zookeeper.nodes.items():
        print("node", path.replace(path.split("/")[2], "GROUP").replace(path.split("/")[4], "TOPIC"), data.decode())
    print("rows", [offset for (offset,) in database.database.execute("SELECT next FROM offsets")])


if __name__ == "__main__":
    run(main)
