"""In-memory state per partition moves with the partition: saved when it is revoked, loaded when it is assigned.

Two members count the words of four partitions. The second joins later and takes over two partitions with the counts of
the first.
"""

import json
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from orders import MEMBER, fresh, new_topic, produce, run

from mockbroker.consumer import Consumer, RebalanceListener, TopicPartition, open_consumer

PARTITIONS = 4


class Caches(RebalanceListener):
    """Saves and loads the counts of partitions. ``counts``: of the assigned partitions; ``folder``: for the others."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder = name, folder
        self.counts: dict[int, Counter[str]] = {}

    async def on_revoked(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        for _, number in partitions:
            (self.folder / f"{number}.json").write_text(json.dumps(self.counts.pop(number)))
        print(f"{self.name} writes", *sorted(number for _, number in partitions))

    async def on_lost(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        self.counts.clear()  # their new owners may have changed them

    async def on_assigned(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        for _, number in sorted(partitions):
            file = self.folder / f"{number}.json"
            self.counts[number] = Counter(json.loads(file.read_text()) if file.exists() else {})
            print(f"{self.name} reads {number}: {dict(self.counts[number])}")


async def count(consumer: Consumer, caches: Caches) -> int:
    records = await consumer.poll(0.05)
    for record in records:
        caches.counts[record.partition][(record.value or b"").decode()] += 1
    return len(records)


async def main(bootstrap: str) -> None:
    topic, group = new_topic(bootstrap, *[["tea", "milk"]] * PARTITIONS, name="words"), fresh("counting")
    settings = MEMBER | {"assignors": ["cooperative-sticky"]}
    with tempfile.TemporaryDirectory() as folder:
        one, two = Caches("first", Path(folder)), Caches("second", Path(folder))
        async with open_consumer(bootstrap, group=group, topics=[topic], listener=one, **settings) as first:
            read = 0
            while read < 2 * PARTITIONS:
                read += await count(first, one)
            async with open_consumer(bootstrap, group=group, topics=[topic], listener=two, **settings) as second:
                while len(one.counts) != PARTITIONS // 2 or len(two.counts) != PARTITIONS // 2:
                    read += await count(first, one) + await count(second, two)
                for number in range(PARTITIONS):
                    produce(bootstrap, topic, ["tea"], number)
                while read < 3 * PARTITIONS:
                    read += await count(first, one) + await count(second, two)
                for number, counts in sorted([*one.counts.items(), *two.counts.items()]):
                    print(f"counted in {number}: {dict(counts)}")


if __name__ == "__main__":
    run(main)
