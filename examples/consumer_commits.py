"""Manual commits: ``commit`` waits until the offsets are stored, ``commit_nowait`` returns and calls back later.

Both take offsets by partition; without offsets they commit the current positions.
"""

from collections.abc import Mapping

from orders import MEMBER, fresh, new_topic, run

from mockbroker.consumer import ConsumerError, OffsetAndMetadata, TopicPartition, open_consumer

Offsets = Mapping[TopicPartition, OffsetAndMetadata]


async def main(bootstrap: str) -> None:
    topic = new_topic(bootstrap, range(3), range(3))
    first, second = (topic, 0), (topic, 1)
    settings = MEMBER | {"enable_auto_commit": False}

    def committed_later(offsets: Offsets, error: ConsumerError | None) -> None:
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
        consumer.commit_nowait({first: 2}, committed_later)
        consumer.commit_nowait(then=committed_later)
        print("going on")
        await consumer.poll(0)  # poll and commit run the callbacks
        while await committed() != [3, 3]:
            await consumer.poll(0.1)
        print("all positions:", await committed())


if __name__ == "__main__":
    run(main)
