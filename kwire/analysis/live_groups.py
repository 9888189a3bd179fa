"""Groups in captured traffic: their current members and committed offsets.

A member is a current member until the traffic shows that the coordinator has removed it: it leaves, a response has
UNKNOWN_MEMBER_ID or an error of fencing, the leader of a classic group receives a list of members without it, another
member receives its partitions or its instance id, or it does not renew its session for the session timeout.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import field

from kwire.analysis.columns import MS
from kwire.analysis.events import CLASSIC, SHARE, GroupEvent
from kwire.analysis.extract import FENCING
from kwire.errorcodes import ErrorCode
from kwire.lazy_dataclass import dataclass

EXPIRY_US = 900_000_000  # of groups and offsets that are not seen again, and the longest session
SESSION_US = 45_000_000  # if the session timeout is not in the traffic: Kafka's default of all group types
SESSION_INTERVALS = 3  # heartbeat intervals in a session, if that is longer
REBALANCE_US = 300_000_000  # if the rebalance timeout is not in the traffic: max.poll.interval.ms of clients
MAX_MEMBERS = 5_000  # of one group

# Events that show that a member takes part in its group.
ALIVE = {"join_done", "sync_done", "heartbeat", "epoch_change", "assigned", "owned"}
_REJOINING = {"heartbeat_error", "sync_error"}
_LEFT_FOR_A_WHILE = -2  # epoch of a static member that leaves and keeps its partitions until its session is over


@dataclass(slots=True, eq=False)
class LiveMember:
    """A current group member in the captured traffic.

    Attributes:
        client_id: client id; None if the request headers contain none.
        host: address of the client.
        seen_us: time of the latest event of the member that renews its session, in microseconds since 1970.
        instance_id: instance id of a static member; None otherwise.
        partitions: number of partitions in the latest assignment that the member received.
        session_us: session timeout in microseconds.
        rebalance_us: rebalance timeout in microseconds.
        owned: partitions of the latest assignment that no other member may have.
    """

    client_id: str | None
    host: str | None
    seen_us: int
    instance_id: str | None = None
    partitions: int = 0
    session_us: int = SESSION_US
    rebalance_us: int = REBALANCE_US
    owned: frozenset[str] = frozenset()

    def learn(self, event: GroupEvent) -> None:
        """Store instance id and timeouts of an event. Timeouts that are not positive are ignored."""
        self.instance_id = event.instance_id or self.instance_id
        session, rebalance = event.session_timeout_ms or 0, event.rebalance_timeout_ms or 0
        if session > 0:
            self.session_us = min(session * MS, EXPIRY_US)
        if event.interval_ms:
            self.session_us = min(max(SESSION_US, SESSION_INTERVALS * event.interval_ms * MS), EXPIRY_US)
        if rebalance > 0:
            self.rebalance_us = min(rebalance * MS, EXPIRY_US)


@dataclass(slots=True)
class LiveGroup:
    """A group in the captured traffic.

    Attributes:
        protocol: ``classic``, ``consumer``, ``share`` or ``streams``; None if no request has shown the protocol.
        generation: latest generation or epoch; None before the first.
        generation_us: time of the latest response with this generation or epoch, in microseconds since 1970.
        rebalances: number of increases of the generation or epoch.
        rebalanced_us: time of the latest rebalance in microseconds since 1970; None before the first.
        rejoining_us: time since which the members of a classic group rejoin, in microseconds since 1970; None if they
            do not.
        members: current members by member id.
        owners: member ids by partition of groups in which a partition has only one owner, with the protocols
            ``consumer`` and ``streams``.
        commits: committed offset, and time in microseconds since 1970, by topic and partition. The partition with the
            latest commit is last. Commits in transactions are not included.
        refused: number of commits with an error.
        seen_us: time of the latest event of the group, in microseconds since 1970.
    """

    protocol: str | None = None
    generation: int | None = None
    generation_us: int = 0
    rebalances: int = 0
    rebalanced_us: int | None = None
    rejoining_us: int | None = None
    members: OrderedDict[str, LiveMember] = field(default_factory=OrderedDict)
    owners: dict[str, str] = field(default_factory=dict)
    commits: OrderedDict[tuple[str, int], tuple[int, int]] = field(default_factory=OrderedDict)
    refused: int = 0
    seen_us: int = 0

    @property
    def places(self) -> int:
        """Number of partitions of which the group has an owner or an offset."""
        return len(self.owners) + len(self.commits)

    def note(self, event: GroupEvent, call: Sequence[GroupEvent]) -> LiveMember | None:
        """Update generation and members by an event.

        Args:
            event: the event.
            call: all events of the same call.

        Returns: the member if the event added one; None otherwise.
        """
        self.seen_us = max(self.seen_us, event.ts)
        self.protocol = event.protocol or self.protocol
        if event.error_code in FENCING and event.member_id:
            self.remove(event.member_id)
        elif event.event == "leave":
            self._note_leave(event)
        elif event.event in ALIVE and not event.error_code:
            return self._note_alive(event, call)
        elif event.event in _REJOINING and event.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            self._note_rejoining(event)
        elif event.event == "commit" and self.protocol == CLASSIC and event.error_code == 0:
            self._renew(event)
        return None

    def deadline(self, member: LiveMember) -> int:
        """Return the time at which the session of a member is over, in microseconds since 1970.

        A member of a classic group that rejoins sends no heartbeats until the coordinator answers the JoinGroup
        request, at the latest after the rebalance timeout.
        """
        over = member.seen_us + member.session_us
        return over if self.rejoining_us is None else max(over, self.rejoining_us + member.rebalance_us)

    def remove(self, member_id: str) -> None:
        """Remove a member. Nothing happens if it is not a current member."""
        member = self.members.pop(member_id, None)
        for partition in () if member is None else member.owned:
            del self.owners[partition]

    def _note_leave(self, event: GroupEvent) -> None:
        if event.error_code or event.generation == _LEFT_FOR_A_WHILE:
            return
        if event.member_id:
            self.remove(event.member_id)
        elif event.instance_id:
            self._remove_instance(event.instance_id)

    def _note_rejoining(self, event: GroupEvent) -> None:
        self._renew(event)
        if self.rejoining_us is None or event.ts - self.rejoining_us > REBALANCE_US:
            self.rejoining_us = event.ts

    def _renew(self, event: GroupEvent) -> None:
        if member := self.members.get(event.member_id or ""):
            member.seen_us = max(member.seen_us, event.ts)
            self.members.move_to_end(event.member_id or "")

    def _note_alive(self, event: GroupEvent, call: Sequence[GroupEvent]) -> LiveMember | None:
        self._note_generation(event, call)
        if event.members and event.generation == self.generation:  # all members of the generation
            for gone in self.members.keys() - set(event.members):
                self.remove(gone)
        if not event.member_id:
            return None
        member = self.members.get(event.member_id)
        is_new = member is None
        if member is None:
            if event.instance_id:
                self._remove_instance(event.instance_id)
            member = LiveMember(event.client_id, event.host, event.ts)
            self.members[event.member_id] = member
        for one in call:
            member.learn(one)
        self._renew(event)
        if event.partitions is not None and event.event in ("sync_done", "assigned"):
            member.partitions = len(event.partitions)
            if event.event == "assigned" and event.protocol != SHARE:
                self._own(event.member_id, member, frozenset(event.partitions), event.ts)
        if len(self.members) > MAX_MEMBERS:
            self.remove(next(iter(self.members)))
        return member if is_new else None

    def _note_generation(self, event: GroupEvent, call: Sequence[GroupEvent]) -> None:
        if event.generation is None:
            return
        if self.generation is not None and event.generation < self.generation:
            if event.event == "join_done" and call[0].ts > self.generation_us:  # the group was deleted or lost
                self.generation, self.generation_us, self.rejoining_us = event.generation, event.ts, None
                for gone in [*self.members]:
                    self.remove(gone)
            return
        if event.generation != self.generation:
            if self.generation is not None:
                self.rebalances += 1
                self.rebalanced_us = event.ts
            self.generation, self.rejoining_us = event.generation, None
        self.generation_us = max(self.generation_us, event.ts)

    def _remove_instance(self, instance_id: str) -> None:
        for gone in [name for name, member in self.members.items() if member.instance_id == instance_id]:
            self.remove(gone)

    def _own(self, name: str, member: LiveMember, partitions: frozenset[str], ts: int) -> None:
        """Record the assignment of a member, and remove members that had one of its partitions before.

        The coordinator assigns a partition when its last owner no longer has it. If this owner has not received an
        assignment without the partition, it is no longer a member.
        """
        for partition in member.owned - partitions:
            del self.owners[partition]
        member.owned = member.owned & partitions
        for partition in partitions - member.owned:
            before = self.owners.get(partition)
            if before is not None and self.members[before].seen_us <= ts:
                self.remove(before)
        kept = frozenset(partition for partition in partitions if self.owners.get(partition, name) == name)
        self.owners.update(dict.fromkeys(kept, name))
        member.owned = kept
