"""How to lose records: auto commit stores their offsets before they are processed.

A worker keeps polled records in memory, the consumer commits automatically, and the worker crashes before it has
processed them. The next member starts after records that were never processed. consumer_batch_insert.py avoids that.
"""

import trio
from orders import CRASHED, MEMBER, SESSION, crash, fresh, in_a_process, new_topic, run

from mockbroker.consumer import open_consumer

INTERVAL = 0.1


async def hoard(bootstrap: str, group: str, topic: str) -> None:
    settings = MEMBER | {"session_timeout": SESSION, "auto_commit_interval": INTERVAL, "max_poll_records": 5}
    async with open_consumer(bootstrap, group=group, topics=[topic], **settings) as consumer:
        waiting = await consumer.poll()
        await trio.sleep(INTERVAL)
        waiting += await consumer.poll()  # first commits the records of the previous poll
        committed = (await consumer.committed((topic, 0)))[topic, 0]
        print("in memory:", *(record.offset for record in waiting), flush=True)
        print("committed:", committed and committed.offset, flush=True)
        crash()


async def main(bootstrap: str) -> None:
    topic, group = new_topic(bootstrap, range(12)), fresh("billing")
    assert await in_a_process(hoard, bootstrap, group, topic) == CRASHED
    done = []
    async with open_consumer(bootstrap, group=group, topics=[topic], **MEMBER) as consumer:
        while 11 not in done:
            done += [record.offset for record in await consumer.poll()]
    print("done by the next member:", *done)
    print("lost:", *sorted({*range(12)} - {*done}))


if __name__ == "__main__":
    run(main)
