"""Inserts records into a database in batches, and commits after each batch: at-least-once processing.

    1 commit offset = 10            5 still fetch from 10, get 5
    2 fetch from 10, get 5          6 insert 5 duplicates
    3 insert 5 into the database    7 commit offset = 15
    4 the client fails              8 next time, fetch from 15

The process really crashes at step 4, and a member with another client id continues: offsets belong to the group. (Some
descriptions of this example commit 16; the committed offset is the next one to read, 15.)
"""

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from orders import CRASHED, MEMBER, SESSION, crash, fresh, in_a_process, new_topic, produce, run

from mockbroker.consumer import ConsumerRecord, open_consumer

BATCH = 5


def insert(database: str, records: list[ConsumerRecord]) -> None:
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.executemany("INSERT INTO orders VALUES (?)", [(record.offset,) for record in records])


async def work(bootstrap: str, group: str, topic: str, database: str, name: str, batches: int, dies: bool) -> None:
    """Insert and commit some batches; then crash between an insert and its commit if ``dies``, else close."""
    settings = MEMBER | {"session_timeout": SESSION, "enable_auto_commit": False, "max_poll_records": BATCH}
    async with open_consumer(bootstrap, group=group, topics=[topic], client_id=name, **settings) as consumer:
        batch: list[ConsumerRecord] = []
        while batches or dies:
            batch += await consumer.poll()
            if len(batch) < BATCH:
                continue
            print(f"{name}: fetch from {batch[0].offset}, get {len(batch)}", flush=True)
            insert(database, batch)
            print(f"{name}: insert {len(batch)}", flush=True)
            if not batches:
                print(f"{name}: crash", flush=True)
                crash()
            await consumer.commit()
            print(f"{name}: commit offset = {batch[-1].offset + 1}", flush=True)
            batch, batches = [], batches - 1


async def main(bootstrap: str) -> None:
    topic, group = new_topic(bootstrap, range(15)), fresh("billing")
    with tempfile.TemporaryDirectory() as folder:
        database = str(Path(folder, "orders.db"))
        with closing(sqlite3.connect(database)) as connection:
            connection.execute("CREATE TABLE orders (number INTEGER)")
            code = await in_a_process(work, bootstrap, group, topic, database, "first", 2, True)
            assert code == CRASHED
            await work(bootstrap, group, topic, database, "second", 1, False)
            produce(bootstrap, topic, range(15, 20))
            await work(bootstrap, group, topic, database, "third", 1, False)
            rows = [number for (number,) in connection.execute("SELECT number FROM orders ORDER BY rowid")]
    print("in the database:", *rows)
    print("twice:", *sorted(number for number in set(rows) if rows.count(number) > 1))


if __name__ == "__main__":
    run(main)
