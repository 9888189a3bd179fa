"""Flow control with ``pause`` and ``resume``: priorities, catching up at the start, joining two streams.

A paused partition stays assigned and keeps its position; the consumer still polls, so the member stays in its group.
"""

from collections.abc import Sequence
from itertools import groupby

from orders import MEMBER, fresh, new_topic, produce, run

from mockbroker.consumer import Consumer, ConsumerRecord, RebalanceListener, TopicPartition, open_consumer

BATCH = 10
SETTINGS = MEMBER | {"max_poll_records": BATCH}
MOMENT = 0.3  # seconds to wait for records of the preferred topic


async def poll_first(consumer: Consumer, waits: TopicPartition) -> list[ConsumerRecord]:
    """Return records; those of partition ``waits`` only if there are no others."""
    consumer.pause(waits)
    if records := await consumer.poll(MOMENT):
        return records
    consumer.resume(waits)
    return await consumer.poll()


def as_text(records: Sequence[ConsumerRecord]) -> str:
    runs = [(topic.split("-")[0], list(run)) for topic, run in groupby(records, lambda record: record.topic)]
    return ", then ".join(f"{topic} {run[0].offset} to {run[-1].offset}" for topic, run in runs)


class PausedAtFirst(RebalanceListener):
    """Pauses partition ``waits`` when it is assigned, and seeks to the last records of the partition in ``last``."""

    def __init__(self, waits: TopicPartition, last: tuple[TopicPartition, int] | None = None) -> None:
        self.waits, self.last = waits, last

    async def on_assigned(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        if self.waits in partitions:
            consumer.pause(self.waits)
        if self.last and self.last[0] in partitions:
            partition, count = self.last
            consumer.seek(partition, (await consumer.end_offsets(partition))[partition] - count)


async def priorities(bootstrap: str) -> None:
    """Read plain orders only while there are no urgent ones; two urgent orders arrive in the middle."""
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
    print("priorities:", as_text(done))


async def catch_up(bootstrap: str) -> None:
    """Read the newest prices first, and the history when there are no new prices."""
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
    print("catching up:", as_text(done))


async def join(bootstrap: str) -> None:
    """Join orders and late payments: the topic that is ahead is paused, so few unmatched records are held."""
    orders, payments = new_topic(bootstrap, range(60), name="orders"), new_topic(bootstrap, [], name="payments")
    left, right = (orders, 0), (payments, 0)
    held: set[int] = set()  # offsets of unmatched records
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
