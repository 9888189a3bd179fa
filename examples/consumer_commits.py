"""Committing by hand: ``commit`` waits until the group has the offsets, ``commit_nowait`` goes on and calls back later.

Both take offsets of partitions; without any it is the position of each.
"""

from collections.abc import Mapping

from orders import MEMBER, fresh, new_topic, run

from mockbroker.consumer import ConsumerError, OffsetAndMetadata, TopicPartition, open_consumer

Offsets = Mapping[TopicPartition, OffsetAndMetadata]


async def main(bootstrap: str) -> None:
    topic = new_topic(bootstrap, range(3), range(3))
    first, second = (topic, 0), (topic, 1)
    settings = MEMBER | {"enable_auto_commit": False}

    def told(offsets: Offsets, error: ConsumerError | None) -> None:
        print("called back:", {partition: at.offset for (_, partition), at in offsets.items()}, error or "stored")

    async with open_consumer(bootstrap, group=fresh("billing"), topics=[topic], **settings) as consumer:
        read = 0
        while read < 6:
            read += len(await consumer.poll())

        async def committed() -> list[int | None]:
            return [at.offset if at else None for at in (await consumer.committed(first, second)).values()]

        print("before:", await committed())
        await consumer.commit({first: 1})
        print("one partition:", await committed())
        await consumer.commit({second: OffsetAndMetadata(2, "by hand")})
        print("with a note:", (await consumer.committed(second))[second])
        consumer.commit_nowait({first: 2}, told)
        consumer.commit_nowait(then=told)
        print("going on")
        await consumer.poll(0)  # a poll or a commit calls back
        while await committed() != [3, 3]:
            await consumer.poll(0.1)
        print("all positions:", await committed())


if __name__ == "__main__":
    run(main)
