"""A member of a share group (KIP-932), for scripts; and requests about such groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import trio
from prober import Prober
from script import NEW, Play, script

from kwire.messages.share_group_describe import ShareGroupDescribeRequest
from kwire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

SESSION = "group.share.session.timeout.ms"
CONFIG: dict[str, int | str] = {
    SESSION: 6000,
    "group.share.min.session.timeout.ms": 1000,
    "group.share.heartbeat.interval.ms": 500,
    "group.share.min.heartbeat.interval.ms": 100,
    "group.consumer.session.timeout.ms": 6000,  # as in kafka.py, for members of consumer groups
    "group.consumer.heartbeat.interval.ms": 500,
    "group.consumer.min.session.timeout.ms": 1000,
    "group.consumer.min.heartbeat.interval.ms": 100,
}
SETTLED = 500  # ms in which the coordinator initializes the share state of partitions
FIRST_SETTLED = 5_000  # ms, the same for a broker that first has to create the topic __share_group_state


def share_script(**config: int | str) -> Any:
    """Add a script for a broker with short sessions. ``config``: other settings, with ``_`` for ``.``."""
    changes = {name.replace("_", "."): value for name, value in config.items()}

    def keep(play: Play) -> Play:
        return script(CONFIG | changes, releases=(NEW,))(play)

    return keep


@dataclass(slots=True, kw_only=True)
class Sharer:
    """A member with the usual fields; its epoch is that of the last response."""

    p: Prober
    conn: str
    group: str = ""
    member_id: str = ""
    epoch: int = 0
    names: Sequence[str] | None = ("probe",)
    version: int = 1

    def __post_init__(self) -> None:
        self.group = self.group or self.p.group
        self.member_id = self.member_id or f"member-{self.conn.lower()}"

    async def join(self, **changes: Any) -> Any:
        """Send a full heartbeat with epoch 0."""
        names = None if self.names is None else list(self.names)
        return await self.beat(**({"member_epoch": 0, "subscribed_topic_names": names} | changes))

    async def enter(self, settled: int = SETTLED) -> Any:
        """Join, wait until the share state of the partitions is initialized, and get the assignment."""
        await self.join()
        await self.p.wait(settled, "share partitions are initialized")
        return await self.beat()

    async def beat(self, *, conn: str = "", **changes: Any) -> Any:
        """Send a heartbeat with only ``changes``."""
        fields: dict[str, Any] = {"group_id": self.group, "member_id": self.member_id, "member_epoch": self.epoch}
        answer = await self.p.ask(conn or self.conn, ShareGroupHeartbeatRequest(**(fields | changes)), self.version)
        if not answer.error_code:
            self.member_id, self.epoch = answer.member_id, answer.member_epoch
        return answer

    async def leave(self, **changes: Any) -> Any:
        return await self.beat(member_epoch=-1, **changes)


async def look(p: Prober, *groups: str, operations: bool = False) -> None:
    """Send ShareGroupDescribe."""
    await trio.sleep(0.1)  # Kafka 4 returns only state that is already written
    request = ShareGroupDescribeRequest(group_ids=list(groups or [p.group]), include_authorized_operations=operations)
    await p.ask("D", request, 1)
