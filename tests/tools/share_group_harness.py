"""A broker harness with one share group (KIP-932), whose members send a heartbeat only when a test calls for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tools.broker_harness import BrokerHarness

from kwire import ErrorCode
from kwire.messages.share_group_describe import ShareGroupDescribeRequest
from kwire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

VERSION = 1


@dataclass
class Sharer:
    """A member. ``assigned``: partitions by topic name, from its last assignment."""

    name: str
    epoch: int = 0
    assigned: dict[str, list[int]] = field(default_factory=dict)
    answer: ShareGroupHeartbeatResponse = field(default_factory=ShareGroupHeartbeatResponse)


class ShareGroupHarness(BrokerHarness):
    """A harness with one share group ``g``, and its members."""

    def __init__(self, **how: Any) -> None:
        super().__init__(**how)
        self.sharers: dict[str, Sharer] = {}

    @property
    def group(self) -> Any:
        return self.broker.groups["g"]

    def beat(self, name: str, *, group: str = "g", **fields: Any) -> ShareGroupHeartbeatResponse:
        """Send a heartbeat with exactly these fields. Its response does not change a member."""
        request = ShareGroupHeartbeatRequest(group_id=group, member_id=name, **fields)
        return self.ask(request, VERSION, client_id=name, node=self.broker.coordinator(group))

    def enter(self, name: str, topics: Sequence[str] = ("t",), **fields: Any) -> Sharer:
        """Add a member, or let a member rejoin."""
        sharer = self.sharers[name] = Sharer(name)
        given: dict[str, Any] = {"member_epoch": 0, "subscribed_topic_names": list(topics)}
        self._take_up(sharer, self.beat(name, **given | fields))
        return sharer

    def poll(self, name: str, **fields: Any) -> Sharer:
        """Send the heartbeat of a member, and apply the response to it."""
        sharer = self.sharers[name]
        self._take_up(sharer, self.beat(name, **{"member_epoch": sharer.epoch} | fields))
        return sharer

    def leave(self, name: str) -> ShareGroupHeartbeatResponse:
        """Let a member leave."""
        del self.sharers[name]
        return self.beat(name, member_epoch=-1)

    def settle(self, rounds: int = 10) -> None:
        """Send heartbeats of all members until their assignments are stable."""
        for _ in range(rounds):
            before = [(sharer.epoch, sharer.assigned) for sharer in self.sharers.values()]
            for name in list(self.sharers):
                self.poll(name)
            if before == [(sharer.epoch, sharer.assigned) for sharer in self.sharers.values()]:
                return
        raise AssertionError(f"not settled after {rounds} rounds")

    def assigned(self, topic: str = "t") -> dict[str, list[int]]:
        """Return the assigned partitions of a topic by member."""
        return {name: sharer.assigned.get(topic, []) for name, sharer in self.sharers.items()}

    def _take_up(self, sharer: Sharer, answer: ShareGroupHeartbeatResponse) -> None:
        sharer.answer = answer
        if answer.error_code != ErrorCode.NONE:
            return
        sharer.epoch = answer.member_epoch
        if answer.assignment is not None:
            topics = self.broker.cluster.by_id
            sharer.assigned = {
                topics[each.topic_id].name: each.partitions for each in answer.assignment.topic_partitions
            }

    def describe(self, group: str = "g") -> Any:
        """Return the description of the group from the describe API."""
        request = ShareGroupDescribeRequest(group_ids=[group])
        return self.ask(request, VERSION, node=self.broker.coordinator(group)).groups[0]
