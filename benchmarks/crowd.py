"""Many mockbroker.consumer members in one process and one group: ``crowd.py ADDRESS TOPIC PROTOCOL MEMBERS``.

Prints one JSON object: seconds until all members have partitions; CPU use of the process (1 is one core) during WINDOW
seconds at rest, and while one member leaves and another joins, with the seconds of this change; number of partitions
that moved at rest (0: the group was stable); resident memory of each further member after the first, in bytes.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import trio
from processes import resident_memory

from mockbroker.consumer import Consumer, RebalanceListener, open_consumer

WINDOW = 15.0  # seconds
LIMIT = 120.0  # seconds for a group to settle


class Notes(RebalanceListener):
    moved = 0  # partitions that listeners of all members were called with

    async def on_revoked(self, _: Any, partitions: Any) -> None:
        Notes.moved += len(partitions)

    async def on_assigned(self, _: Any, partitions: Any) -> None:
        Notes.moved += len(partitions)


class Crowd:
    def __init__(self, nursery: trio.Nursery, address: str, topic: str, protocol: str, partitions: int) -> None:
        self.nursery, self.address, self.topic, self.protocol = nursery, address, topic, protocol
        self.group, self.partitions = f"crowd-{time.time_ns()}", partitions
        self.members: list[tuple[Consumer, trio.CancelScope]] = []

    async def add_member(self) -> None:
        self.members.append(await self.nursery.start(self._member))

    async def _member(self, *, task_status: Any) -> None:
        with trio.CancelScope() as scope:
            async with open_consumer(
                self.address,
                group=self.group,
                topics=[self.topic],
                listener=Notes(),
                group_protocol=self.protocol,
                auto_offset_reset="earliest",
            ) as consumer:
                task_status.started((consumer, scope))
                while True:
                    await consumer.poll()

    def settled(self) -> bool:
        """Return True if all members have partitions of the same generation, and no partition is unassigned."""
        owned = [len(consumer.assignment) for consumer, _ in self.members]
        generations = {consumer.group_metadata.generation_id for consumer, _ in self.members}
        return sum(owned) == self.partitions and max(owned) - min(owned) <= 1 and len(generations) == 1

    async def wait_settled(self) -> float:
        """Wait until the group is settled, and return the seconds. Raises: trio.TooSlowError after LIMIT."""
        began = trio.current_time()
        with trio.fail_after(LIMIT):
            while not self.settled():
                await trio.sleep(0.05)
        return trio.current_time() - began


class Share:
    """CPU use of this process since the object was made; 1 is one core."""

    def __init__(self) -> None:
        self.cpu, self.start = time.process_time(), time.perf_counter()

    def value(self) -> float:
        return (time.process_time() - self.cpu) / (time.perf_counter() - self.start)


async def main(address: str, topic: str, protocol: str, members: int, partitions: int) -> None:
    figures: dict[str, Any] = {}
    async with trio.open_nursery() as nursery:
        crowd = Crowd(nursery, address, topic, protocol, partitions)
        await crowd.add_member()
        await crowd.wait_settled()
        alone = resident_memory(os.getpid())
        share, began = Share(), trio.current_time()
        for _ in range(members - 1):
            await crowd.add_member()
        await crowd.wait_settled()
        figures |= {"forms_s": trio.current_time() - began, "forms_cores": share.value()}
        await trio.sleep(1)
        Notes.moved = 0
        share = Share()
        await trio.sleep(WINDOW)
        figures |= {"rest_cores": share.value(), "moved_at_rest": Notes.moved}
        figures["bytes"] = (resident_memory(os.getpid()) - alone) / (members - 1)
        share, began = Share(), trio.current_time()
        _, scope = crowd.members.pop(0)
        scope.cancel()
        await crowd.add_member()
        await crowd.wait_settled()
        figures |= {"change_s": trio.current_time() - began, "change_cores": share.value()}
        nursery.cancel_scope.cancel()
    print(json.dumps(figures))


if __name__ == "__main__":
    address, topic, protocol, members, partitions = sys.argv[1:]
    trio.run(main, address, topic, protocol, int(members), int(partitions))
