"""A record that cannot be processed: seek back to it in its partition, while other partitions continue.

``seek`` is local to the consumer: it sends no request, causes no rebalance and changes no committed offset.
"""

from collections.abc import Iterable

from orders import MEMBER, fresh, new_topic, run

from mockbroker.consumer import ConsumerRecord, TopicPartition, open_consumer

COMMIT_EVERY = 4
BAD = {(0, 1): 2, (1, 3): 1}  # how often a record fails, by partition and offset


def process(records: Iterable[ConsumerRecord]) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Process records; return by partition how many succeeded, and the first offset that failed."""
    done: dict[TopicPartition, int] = {}
    failed: dict[TopicPartition, int] = {}
    for record in records:
        place, here = (record.topic, record.partition), (record.partition, record.offset)
        if place in failed:
            continue  # records after a failed one are read again
        if BAD.get(here, 0):
            BAD[here] -= 1
            failed[place] = record.offset
        else:
            done[place] = done.get(place, 0) + 1
    return done, failed


async def main(bootstrap: str) -> None:
    topic, group = new_topic(bootstrap, range(4), range(4)), fresh("billing")
    settings = MEMBER | {"enable_auto_commit": False}
    async with open_consumer(bootstrap, group=group, topics=[topic], **settings) as consumer:
        counts = {(topic, 0): 0, (topic, 1): 0}
        uncommitted = 0
        generations = set()
        while sum(counts.values()) < 8:
            done, failed = process(await consumer.poll())
            for partition, offset in failed.items():
                consumer.seek(partition, offset)
                before = counts[partition] + done.get(partition, 0)
                print(f"partition {partition[1]}: offset {offset} failed; {before} done")
            for partition, count in done.items():
                counts[partition] += count
                uncommitted += count
            generations.add(consumer.group_metadata.generation_id)
            if uncommitted >= COMMIT_EVERY:
                await consumer.commit()  # of a partition with a failed record up to that record
                uncommitted = 0
        await consumer.commit()
        print("done:", {number: count for (_, number), count in counts.items()})
        print("committed:", {number: at and at.offset for (_, number), at in (await consumer.committed()).items()})
        print("generations:", *generations)


if __name__ == "__main__":
    run(main)
