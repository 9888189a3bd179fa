"""A consumer with auto commit that subscribes to a pattern, and one that subscribes to topics by name.

The positions are committed every ``auto_commit_interval`` seconds and when the consumer closes, so the next member
continues after the records that were read.
"""

import re

from orders import MEMBER, fresh, new_topic, produce, run

from mockbroker.consumer import ConsumerRecord, open_consumer


async def read(bootstrap: str, group: str, topics: re.Pattern[str] | list[str], count: int) -> list[str]:
    records: list[str] = []
    async with open_consumer(bootstrap, group=group, topics=topics, auto_commit_interval=1.0, **MEMBER) as consumer:
        while len(records) < count:
            records += [as_text(record) for record in await consumer.poll()]
    return sorted(records)


def as_text(record: ConsumerRecord) -> str:
    return f"{record.topic.split('-')[0]} {record.offset}: {(record.value or b'').decode()}"


async def main(bootstrap: str) -> None:
    shop = fresh("shop")
    tea = new_topic(bootstrap, ["green", "black"], name=f"tea-{shop}")
    new_topic(bootstrap, ["brown"], name=f"sugar-{shop}")
    print("all topics:", await read(bootstrap, fresh("all"), re.compile(f".*-{shop}-.*"), 3))
    some = fresh("some")
    print("one topic:", await read(bootstrap, some, [tea], 2))
    produce(bootstrap, tea, ["white"])
    print("the next member of its group:", await read(bootstrap, some, [tea], 1))


if __name__ == "__main__":
    run(main)
