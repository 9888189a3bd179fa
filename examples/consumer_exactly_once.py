"""Results and offsets in one database transaction: exactly-once processing, wherever the worker crashes.

Nothing is committed to Kafka; each start seeks to the offset in the database. The database has both the sum and the
next offset, or neither.
"""

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from orders import CRASHED, MEMBER, crash, in_a_process, new_topic, run

from mockbroker.consumer import ConsumerRecord, open_consumer

TABLES = """
CREATE TABLE sums (customer TEXT PRIMARY KEY, sum INTEGER);
CREATE TABLE offsets (topic TEXT, number INTEGER, next INTEGER, PRIMARY KEY (topic, number));
"""
ADD = "INSERT INTO sums VALUES (?, ?) ON CONFLICT DO UPDATE SET sum = sum + excluded.sum"
KEEP = "INSERT INTO offsets VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET next = excluded.next"
POINTS = ["with records in hand", "after the result", "after the offset", "after the transaction"]


def store(database: sqlite3.Connection, record: ConsumerRecord, dies: str) -> None:
    """Store the result of a record and the next offset in one transaction."""
    customer, amount = (record.value or b"").decode().split()
    with database:  # a transaction
        database.execute(ADD, (customer, int(amount)))
        if dies == "after the result":
            crash()
        database.execute(KEEP, (record.topic, record.partition, record.offset + 1))
        if dies == "after the offset":
            crash()


async def work(bootstrap: str, topic: str, path: str, dies: str) -> None:
    """Process the topic to its end, or crash at the point ``dies`` of the second record."""
    with closing(sqlite3.connect(path)) as database:
        partition = topic, 0
        row = database.execute("SELECT next FROM offsets WHERE topic = ? AND number = ?", partition).fetchone()
        settings = MEMBER | {"enable_auto_commit": False, "max_poll_records": 2}
        async with open_consumer(bootstrap, partitions=[partition], **settings) as consumer:
            begin, end = row[0] if row else 0, (await consumer.end_offsets(partition))[partition]
            print(f"from {begin}", end=", " if dies else "\n", flush=True)
            consumer.seek(partition, begin)
            while (consumer.position(partition) or 0) < end:
                for n, record in enumerate(await consumer.poll()):
                    if dies:
                        print(f"a crash {dies}" if n else "one stored", end="\n" if n else ", ", flush=True)
                    if n and dies == "with records in hand":
                        crash()
                    store(database, record, dies if n else "")
                    if n and dies:
                        crash()


async def main(bootstrap: str) -> None:
    orders = [(f"c{n % 3}", 10**n) for n in range(8)]
    topic = new_topic(bootstrap, [f"{customer} {amount}" for customer, amount in orders])
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "sums.db"))
        with closing(sqlite3.connect(path)) as database:
            database.executescript(TABLES)
            for point in POINTS:
                assert await in_a_process(work, bootstrap, topic, path, point) == CRASHED
            await work(bootstrap, topic, path, "")
            for customer, amount in database.execute("SELECT * FROM sums ORDER BY customer"):
                print(customer, amount, "right" if amount == sum(a for c, a in orders if c == customer) else "wrong")


if __name__ == "__main__":
    run(main)
