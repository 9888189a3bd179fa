"""Why ``max_poll_records`` matters: a consumer that does not poll for ``max_poll_interval`` leaves the group.

Heartbeats continue meanwhile, but a consumer that does not poll may be stuck, so its partitions are reassigned and its
commit is refused. With fewer records per poll, the same work at the same speed succeeds.
"""

import trio
from orders import MEMBER, fresh, new_topic, run

from mockbroker.consumer import CommitFailed, open_consumer

RECORDS, WORK = 12, 0.1  # seconds for each record
MAX_POLL_INTERVAL = 0.8


async def read(bootstrap: str, most: int) -> None:
    """Process records until all are committed, or all have been processed twice."""
    topic, group = new_topic(bootstrap, range(RECORDS)), fresh("billing")
    settings = MEMBER | {"enable_auto_commit": False, "max_poll_interval": MAX_POLL_INTERVAL}
    worked: list[int] = []
    stored = refused = 0
    async with open_consumer(bootstrap, group=group, topics=[topic], max_poll_records=most, **settings) as consumer:
        while stored < RECORDS and len(worked) < 2 * RECORDS:
            for record in await consumer.poll():
                await trio.sleep(WORK)
                worked.append(record.offset)
            try:
                await consumer.commit()
                stored = worked[-1] + 1
            except CommitFailed:
                refused += 1
    print(f"at most {most} a poll: {len(worked)} records worked on, {stored} committed, {refused} commits refused")


async def main(bootstrap: str) -> None:
    await read(bootstrap, RECORDS)
    await read(bootstrap, 2)


if __name__ == "__main__":
    run(main)
