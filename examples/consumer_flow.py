"""Which partitions come first: ``pause`` and ``resume``. Priorities, catching up at the start, two streams joined.

A paused partition stays assigned and keeps its position; polls go on, so the member stays in its group.
"""

from collections.abc import Sequence
from itertools import groupby

from orders import MEMBER, fresh, new_topic, produce, run

from mockbroker.consumer import Consumer, ConsumerRecord, RebalanceListener, TopicPartition, open_consumer

BATCH = 10
SETTINGS = MEMBER | {"max_poll_records": BATCH}
MOMENT = 0.3  # seconds to wait for what comes first


async def poll_first(consumer: Consumer, waits: TopicPartition) -> list[ConsumerRecord]:
    """Records of ``waits`` only if there are no others."""
    consumer.pause(waits)
    if records := await consumer.poll(MOMENT):
        return records
    consumer.resume(waits)
    return await consumer.poll()


def told(records: Sequence[ConsumerRecord]) -> str:
    runs = [(topic.split("-")[0], list(run)) for topic, run in groupby(records, lambda record: record.topic)]
    return ", then ".join(f"{topic} {run[0].offset} to {run[-1].offset}" for topic, run in runs)


class PausedAtFirst(RebalanceListener):
    """``waits`` is paused before it is read; of the partition of ``last`` only so many records are wanted."""

    def __init__(self, waits: TopicPartition, last: tuple[TopicPartition, int] | None = None) -> None:
        self.waits, self.last = waits, last

    async def on_assigned(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        if self.waits in partitions:
            consumer.pause(self.waits)
        if self.last and self.last[0] in partitions:
            partition, count = self.last
            consumer.seek(partition, (await consumer.end_offsets(partition))[partition] - count)


async def priorities(bootstrap: str) -> None:
    """Plain orders wait while there are urgent ones; two of these come in the middle."""
    urgent, plain = new_topic(bootstrap, range(2), name="urgent"), new_topic(bootstrap, range(25), name="plain")
    first, waits, done = (urgent, 0), (plain, 0), list[ConsumerRecord]()
    listener = PausedAtFirst(waits)
    async with open_consumer(
        bootstrap, group=fresh("g"), topics=[urgent, plain], listener=listener, **SETTINGS
    ) as consumer:
        while not consumer.assignment >= {first, waits}:
            done += await consumer.poll(MOMENT)
        while len(done) < 29:
            done += await poll_first(consumer, waits)
            if len(done) == 12:
                produce(bootstrap, urgent, range(2, 4))
    print("priorities:", told(done))


async def catch_up(bootstrap: str) -> None:
    """The newest prices are wanted at once, the whole of the history when there is time."""
    prices, history = new_topic(bootstrap, range(99), name="prices"), new_topic(bootstrap, range(25), name="history")
    newest, waits, done = (prices, 0), (history, 0), list[ConsumerRecord]()
    listener = PausedAtFirst(waits, last=(newest, 3))
    async with open_consumer(
        bootstrap, group=fresh("g"), topics=[prices, history], listener=listener, **SETTINGS
    ) as consumer:
        while not consumer.assignment >= {newest, waits}:
            done += await consumer.poll(MOMENT)
        while len(done) < 28:
            done += await poll_first(consumer, waits)
    print("catching up:", told(done))


async def join(bootstrap: str) -> None:
    """An order and its payment belong together; the payments are late. Who is ahead waits, so few halves are held."""
    orders, payments = new_topic(bootstrap, range(60), name="orders"), new_topic(bootstrap, [], name="payments")
    left, right = (orders, 0), (payments, 0)
    held: set[int] = set()  # whose other half is not there yet
    most = pairs = 0
    async with open_consumer(bootstrap, group=fresh("g"), topics=[orders, payments], **SETTINGS) as consumer:

        async def go_on() -> None:
            nonlocal most, pairs
            for record in await consumer.poll(MOMENT):
                pairs += record.offset in held
                held.symmetric_difference_update({record.offset})
            most = max(most, len(held))
            if consumer.assignment >= {left, right}:
                ahead = (consumer.position(left) or 0) - (consumer.position(right) or 0)
                for partition, leads in ((left, ahead > BATCH), (right, -ahead > BATCH)):
                    (consumer.pause if leads else consumer.resume)(partition)

        while not consumer.paused:
            await go_on()
        stopped = consumer.position(left)
        await go_on()
        print(f"join: orders stop at {stopped}, a moment later they are at {consumer.position(left)};", end=" ")
        produce(bootstrap, payments, range(60))
        while consumer.paused:
            await go_on()
        print(f"payments have caught up, orders are at {consumer.position(left)};", end=" ")
        while pairs < 60:
            await go_on()
    print(f"{pairs} pairs, at most {most} halves held")


async def main(bootstrap: str) -> None:
    await priorities(bootstrap)
    await catch_up(bootstrap)
    await join(bootstrap)


if __name__ == "__main__":
    run(main)
