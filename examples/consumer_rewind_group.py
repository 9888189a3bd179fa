"""A group that reads its topic again from the beginning, by a rolling restart with a flag.

The results were wrong, and all offsets are committed. Each member is restarted with the flag, and then seeks to the
beginning of every partition that it is assigned. Another rolling restart removes the flag.
"""

from collections.abc import Sequence
from contextlib import suppress

import trio
from orders import MEMBER, fresh, new_topic, produce, run

from mockbroker.consumer import Consumer, RebalanceListener, TopicPartition, Wakeup, open_consumer

PARTITIONS = 4


class Rewind(RebalanceListener):
    async def on_assigned(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        if partitions:
            consumer.seek_to_beginning(*partitions)


class Member:
    """A member. ``read``: partition and offset of each record; ``progress``: event of the next poll of any member."""

    progress = trio.Event()

    def __init__(self) -> None:
        self.read: list[tuple[int, int]] = []
        self.ended = trio.Event()

    async def work(
        self,
        bootstrap: str,
        group: str,
        topic: str,
        flag: bool,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        listener = Rewind() if flag else None
        async with open_consumer(bootstrap, group=group, topics=[topic], listener=listener, **MEMBER) as self.consumer:
            task_status.started()
            with suppress(Wakeup):
                while True:
                    self.read += [(record.partition, record.offset) for record in await self.consumer.poll(0.1)]
                    Member.progress.set()
        self.ended.set()

    async def stop(self) -> None:
        self.consumer.wakeup()
        await self.ended.wait()

    def is_done(self, end: int) -> bool:
        """Return True if the member has half of the partitions and has read them up to offset ``end``."""
        mine = self.consumer.assignment
        return len(mine) == PARTITIONS // 2 and all(self.consumer.position(partition) == end for partition in mine)

    def of_its_own(self) -> int:
        """Return the number of records that the member has read from its current partitions."""
        mine = {number for _, number in self.consumer.assignment}
        return len({place for place in self.read if place[0] in mine})


def places(members: Sequence[Member]) -> list[tuple[int, int]]:
    return [place for member in members for place in member.read]


async def main(bootstrap: str) -> None:
    topic, group = new_topic(bootstrap, *[range(5)] * PARTITIONS), fresh("billing")
    members: list[Member] = []

    async def rolling_restart(*, flag: bool) -> None:
        for n in range(2):
            if n < len(members):
                await members[n].stop()
            members[n : n + 1] = [member := Member()]
            await nursery.start(member.work, bootstrap, group, topic, flag)

    async def all_read(count: int, end: int, each: int = 0) -> list[tuple[int, int]]:
        """Wait until all members are at offset ``end``, with ``count`` records read, and ``each`` by every member."""
        while not (
            all(member.is_done(end) and member.of_its_own() >= each for member in members)
            and len({*places(members)}) >= count
        ):
            Member.progress = trio.Event()
            await Member.progress.wait()
        return places(members)

    async with trio.open_nursery() as nursery:
        await rolling_restart(flag=False)
        print("read:", len({*await all_read(20, 5)}), "records")
        await rolling_restart(flag=True)
        print("read again:", len({*await all_read(20, 5, each=10)}), "records,", end=" ")
        print(*(member.of_its_own() for member in members), "by their present owners")
        await rolling_restart(flag=False)
        for number in range(PARTITIONS):
            produce(bootstrap, topic, ["new"], number)
        # a member that still has the flag may be assigned more partitions during the restart, and rewinds those too
        print("without the flag:", sorted({place for place in await all_read(PARTITIONS, 6) if place[1] == 5}))
        for member in members:
            await member.stop()


if __name__ == "__main__":
    run(main)
