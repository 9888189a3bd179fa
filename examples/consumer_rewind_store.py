"""A group with its offsets in a database: saved when partitions are revoked, and sought when they are assigned.

Results and offsets are written in one transaction. The member that is assigned a partition starts at the offset in the
database, so an UPDATE rewinds the group. Nothing is committed to Kafka.
"""

import sqlite3
from collections.abc import Sequence
from contextlib import closing

from orders import MEMBER, fresh, new_topic, run

from mockbroker.consumer import Consumer, ConsumerRecord, RebalanceListener, TopicPartition, open_consumer

TABLES = """
CREATE TABLE done (number INTEGER, offset INTEGER);
CREATE TABLE offsets (topic TEXT, number INTEGER, next INTEGER, PRIMARY KEY (topic, number));
"""
BATCH = 4


class KeepOutside(RebalanceListener):
    """Writes records and offsets to the database, in batches and on revocation. ``held``: records not yet written."""

    def __init__(self, name: str, database: sqlite3.Connection) -> None:
        self.name, self.database = name, database
        self.held: list[ConsumerRecord] = []

    def save(self) -> None:
        with self.database:  # a transaction
            for record in self.held:
                self.database.execute("INSERT INTO done VALUES (?, ?)", (record.partition, record.offset))
                place = record.topic, record.partition, record.offset + 1
                self.database.execute("INSERT OR REPLACE INTO offsets VALUES (?, ?, ?)", place)
        self.held = []

    def begin(self, partition: TopicPartition) -> int:
        row = self.database.execute("SELECT next FROM offsets WHERE topic = ? AND number = ?", partition).fetchone()
        return row[0] if row else 0

    async def on_revoked(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        print(f"{self.name} gives up {len(partitions)} partitions and saves what it holds: {len(self.held)}")
        self.save()

    async def on_lost(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        self.held = []  # the new owners have started at the offsets in the database

    async def on_assigned(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        for partition in partitions:
            consumer.seek(partition, self.begin(partition))
        print(f"{self.name} begins after {sum(self.begin(partition) for partition in partitions)} records")


async def read(bootstrap: str, group: str, topic: str, listener: KeepOutside, count: int) -> None:
    settings = MEMBER | {"enable_auto_commit": False}
    async with open_consumer(bootstrap, group=group, topics=[topic], listener=listener, **settings) as consumer:
        async for record in consumer:
            listener.held.append(record)
            if len(listener.held) == BATCH:
                listener.save()
            count -= 1
            if not count:
                break
        print("committed in the group:", *set((await consumer.committed()).values()))


async def main(bootstrap: str) -> None:
    topic, group = new_topic(bootstrap, range(6), range(6)), fresh("billing")
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript(TABLES)
        await read(bootstrap, group, topic, KeepOutside("first", database), 7)
        await read(bootstrap, group, topic, KeepOutside("second", database), 5)
        show(database)
        with database:
            database.execute("UPDATE offsets SET next = 4")
        await read(bootstrap, group, topic, KeepOutside("third", database), 4)
        show(database)


def show(database: sqlite3.Connection) -> None:
    for number in (0, 1):
        rows = database.execute("SELECT offset FROM done WHERE number = ? ORDER BY rowid", (number,))
        print(f"partition {number}:", *(offset for (offset,) in rows))


if __name__ == "__main__":
    run(main)
