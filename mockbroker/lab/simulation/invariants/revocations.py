"""The checker of invariant I18, which is about members that do not revoke their partitions.

The coordinator fences such a member exactly at the end of its rebalance timeout.
"""

from __future__ import annotations

from typing import Any

from kwire.lazy_dataclass import dataclass
from mockbroker.base.effects import Call
from mockbroker.base.event_kinds import EventKind
from mockbroker.broker.broker import Broker
from mockbroker.broker.journal import Event
from mockbroker.groups.consumer.state import (
    ConsumerGroup,
    ConsumerMember,
    MemberState,
)
from mockbroker.groups.partition_sets import PartitionSet
from mockbroker.lab.simulation.watching import Watcher, remove_group

SLACK = 0.05  # tolerance in seconds: journal times are whole milliseconds, and a deadline is handled in a later tick
REASON = "partitions were not revoked"

Step = tuple[int, PartitionSet, PartitionSet]  # member epoch, assigned partitions, partitions to revoke


@dataclass(frozen=True, slots=True)
class Due:
    """A revocation that a member has to complete within its rebalance timeout.

    Attributes:
        step: member epoch, assigned partitions and partitions to revoke, at the start of the revocation.
        since: broker time at which the timeout started, seconds.
        timeout: rebalance timeout of the member, seconds.
    """

    step: Step
    since: float
    timeout: float


class Revocations(Watcher):
    """The checker of invariant I18: a member that does not revoke its partitions is fenced at the end of its rebalance
    timeout.

    The rebalance timeout starts when the member's assignment requires a revocation, and restarts when another
    coordinator loads the group. For a static member that has left temporarily, the timeout starts only when a
    coordinator loads the group, and ends when the member returns.

    A member of the classic protocol has this timeout only after a load. The timeout does not end when the member
    revokes partitions, so the member may be fenced at the end. Its other timeouts (for the next JoinGroup after a
    Heartbeat, and for SyncGroup) are not checked.

    Source: Kafka's GroupMetadataManager (scheduleConsumerGroupRebalanceTimeout, onLoaded, maybeReconcile).
    """

    name = "I18"

    def __init__(self) -> None:
        self._due: dict[tuple[str, str], Due] = {}
        self._may_end: dict[tuple[str, str], Due] = {}  # timeouts of classic members that have revoked since a load

    def handled(self, broker: Broker, call: Call[Any], now: float) -> None:
        group = broker.groups.get_as(getattr(call.request, "group_id", ""), ConsumerGroup)
        if group is not None:
            for key in [key for key in self._due if key[0] == group.group_id and key[1] not in group.members]:
                del self._due[key]
            for member in group.members.values():
                self._update_due(group.group_id, member, now)

    def journaled(self, broker: Broker, event: Event) -> None:
        group, now = broker.groups.get_as(event.group, ConsumerGroup), event.time_ms / 1000
        match event.event:
            case EventKind.UNLOAD | EventKind.DELETE | EventKind.DOWNGRADE:
                remove_group(self._due, event.group)
                remove_group(self._may_end, event.group)
            case EventKind.LOAD if group is not None:
                for member in group.members.values():
                    self._update_due(event.group, member, now, loaded=True)
            case EventKind.LEAVE | EventKind.EXPIRE:
                classic = self._may_end.pop((event.group, event.member_id), None)
                due = self._due.pop((event.group, event.member_id), classic)
                if event.reason.startswith(REASON):
                    self._fenced(event, due, now)

    def crashed(self, broker: Broker, now: float) -> None:
        self._due.clear()
        self._may_end.clear()

    def ticked(self, broker: Broker, now: float) -> None:
        self.inspect(broker, now)

    def inspect(self, broker: Broker, now: float) -> None:
        if broker.deadlines.earliest <= now:
            return  # due deadlines have not been handled yet
        for (group_id, member_id), due in self._due.items():
            if now - due.since > due.timeout + SLACK:
                late = f"for {now - due.since:.3f} s, with a rebalance timeout of {due.timeout:g} s"
                raise self.broken(
                    f"member {member_id} of group {group_id} did not revoke its partitions {late}, but was not fenced"
                )

    def _fenced(self, event: Event, due: Due | None, now: float) -> None:
        if due is None:
            raise self.broken(
                f"member {event.member_id} of group {event.group} was fenced, but had no partitions to revoke"
            )
        if now - due.since < due.timeout - SLACK:
            early = f"after only {now - due.since:.3f} s, with a rebalance timeout of {due.timeout:g} s"
            raise self.broken(f"member {event.member_id} of group {event.group} was fenced {early}")

    def _update_due(self, group_id: str, member: ConsumerMember, now: float, *, loaded: bool = False) -> None:
        key = group_id, member.member_id
        step = member.epoch, member.assigned, member.pending_revocation
        revokes = member.state is MemberState.UNREVOKED_PARTITIONS
        if revokes and key in self._due and self._due[key].step == step:
            return
        if revokes and (loaded or (member.epoch >= 0 and member.classic is None)):
            self._due[key] = Due(step, now, member.rebalance_timeout)
        else:
            due = self._due.pop(key, None)
            if due is not None and member.classic is not None:
                self._may_end[key] = due
