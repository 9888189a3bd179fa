"""A group whose offsets are kept in a database: saved when partitions go, sought when they come, and so rewound there.

What a member has done and where it is are one transaction. Whoever is assigned a partition goes on where the database
says, and to read again from some offset is one UPDATE. The group itself commits nothing.
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
    """``held``: records that are not in the database yet: they go in when there are some, or when partitions go."""

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
        found = self.database.execute("SELECT next FROM offsets WHERE topic = ? AND number = ?", partition).fetchone()
        return found[0] if found else 0

    async def on_revoked(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        print(f"{self.name} gives up {len(partitions)} partitions and saves what it holds: {len(self.held)}")
        self.save()

    async def on_lost(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        self.held = []  # others have begun where the database says

    async def on_assigned(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        for partition in partitions:
            consumer.seek(partition, self.begin(partition))
        print(f"{self.name} begins behind {sum(self.begin(partition) for partition in partitions)} records")


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
        found = database.execute("SELECT offset FROM done WHERE number = ? ORDER BY rowid", (number,))
        print(f"partition {number}:", *(offset for (offset,) in found))


if __name__ == "__main__":
    run(main)
