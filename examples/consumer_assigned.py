"""Fixed partitions with ``assign``: no rebalances, and no other member takes over when a consumer dies.

For workers that keep local state per partition, or that a supervisor restarts when they fail. The group only stores
the offsets, so the next consumer with the same partitions continues after them.
"""

from orders import CRASHED, MEMBER, SESSION, crash, fresh, in_a_process, new_topic, produce, run

from mockbroker.consumer import Consumer, ConsumerRecord, open_consumer


async def read(consumer: Consumer, count: int, name: str) -> None:
    records: list[ConsumerRecord] = []
    while len(records) < count:
        records += await consumer.poll()
    print(f"{name}:", *(f"{record.partition}/{record.offset}" for record in records), flush=True)


async def left(bootstrap: str, group: str, topic: str, name: str, count: int, dies: bool) -> None:
    """Read partition 0 and commit; then crash if ``dies``."""
    settings = MEMBER | {"session_timeout": SESSION, "enable_auto_commit": False}
    async with open_consumer(bootstrap, group=group, partitions=[(topic, 0)], **settings) as consumer:
        await read(consumer, count, name)
        await consumer.commit()
        if dies:
            crash()


async def main(bootstrap: str) -> None:
    topic, group = new_topic(bootstrap, range(3), range(3)), fresh("billing")
    settings = MEMBER | {"session_timeout": SESSION, "enable_auto_commit": False}
    async with open_consumer(bootstrap, group=group, partitions=[(topic, 1)], **settings) as right:
        await read(right, 3, "right")
        assert await in_a_process(left, bootstrap, group, topic, "left", 3, True) == CRASHED
        produce(bootstrap, topic, range(3, 5), partition=0)
        print("right, for longer than a session:", await right.poll(1.5 * SESSION), flush=True)
        print("right has partitions", *(number for _, number in right.assignment), flush=True)
        print("generation and member id:", right.group_metadata.generation_id, repr(right.group_metadata.member_id))
        produce(bootstrap, topic, range(3, 4), partition=1)
        await read(right, 1, "right")
    await left(bootstrap, group, topic, "left again", 2, False)


if __name__ == "__main__":
    run(main)
