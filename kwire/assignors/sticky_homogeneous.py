"""The sticky algorithm for members that subscribe to the same topics: every member keeps partitions up to its share.

Source: AbstractStickyAssignor.ConstrainedAssignmentBuilder of kafka-clients.
"""

from __future__ import annotations

from collections.abc import Sequence

from kwire.assignors.client import GroupAssignment, Racks, TopicPartition, Topics
from kwire.assignors.sticky_history import Ownership
from kwire.java import utf16


def share_out(topics: Topics, before: Ownership, racks: Racks) -> tuple[GroupAssignment, dict[TopicPartition, str]]:
    """Return the assigned partitions by member id; and for each partition that moves, the member to which it moves.

    Args:
        topics: partitions by topic name.
        before: partitions that members own according to their claims.
        racks: racks that matter for the assignment.
    """
    sharing = _Sharing(topics, before, racks)
    sharing.keep()
    free = sharing.free()
    sharing.below.sort(key=utf16)
    sharing.at_least.sort(key=utf16)
    sharing.give_near(free)
    sharing.give(free)
    return sharing.shares, sharing.moved


class _Sharing:
    """The state of one assignment of a group whose members subscribe to the same topics.

    If the partitions cannot be divided equally, some members get the larger share: one partition more than the smaller
    share.

    Args:
        topics, before, racks: arguments of ``share_out``.

    Attributes:
        shares: assigned partitions by member id.
        moved: for each partition that moves, the member to which it moves.
        below: members with fewer partitions than the smaller share.
        at_least: members that have exactly the smaller share, as long as a larger share is available to one of them.
    """

    def __init__(self, topics: Topics, before: Ownership, racks: Racks) -> None:
        self._topics = topics
        self._before = before
        self._racks = racks
        total = sum(map(len, topics.values()))
        self._least, self._larger = divmod(total, len(before.owned))
        self._most = self._least + (self._larger > 0)
        self._revoked: dict[TopicPartition, str] = {}
        self.shares: GroupAssignment = {member_id: [] for member_id in before.owned}
        self.moved: dict[TopicPartition, str] = {}
        self.below: list[str] = []
        self.at_least: list[str] = []

    def keep(self) -> None:
        """Assign to each member the partitions that it keeps, up to its share.

        A member keeps a partition if no other member claims it, and if one of its replicas is in the member's rack
        (where racks matter). All other partitions that the member owns are revoked. The method also fills ``below`` and
        ``at_least``.
        """
        for member_id, owned in self._before.owned.items():
            near = []
            for partition in owned:
                if self._racks.match(member_id, partition):
                    near.append(partition)
                else:
                    self._revoked[partition] = member_id
            near.sort(key=lambda partition: (partition[1], utf16(partition[0])))
            kept = [partition for partition in near if partition not in self._before.disputed]
            room = self._least
            if len(kept) < room:
                self.below.append(member_id)
            elif len(kept) >= self._most and self._larger > 0:
                room = self._most
                self._give_larger()
            elif self._larger > 0:
                self.at_least.append(member_id)
            self.shares[member_id] += kept[:room]
            self._revoked |= dict.fromkeys(kept[room:], member_id)

    def free(self) -> list[TopicPartition]:
        kept = {partition for share in self.shares.values() for partition in share}
        everything = ((topic, n) for topic in sorted(self._topics, key=utf16) for n in range(len(self._topics[topic])))
        free = [partition for partition in everything if partition not in kept]
        if nearby := self._racks.nearby:
            free.sort(key=lambda partition: nearby[partition[0]][partition[1]])
        return free

    def give_near(self, free: list[TopicPartition]) -> None:
        """Assign partitions to members in the racks of their replicas. Remove the assigned partitions from ``free``.

        Members with fewer partitions than the smaller share are served first. The method does nothing if racks do not
        matter.
        """
        if not self._racks.members:
            return
        start = 0
        rest = []
        for partition in free:
            at = self._next_near(partition, self.below, start)
            if at is not None:
                member_id = self.below[at]
                count = len(self.shares[member_id]) + 1
                if count >= self._least:
                    del self.below[at]
                    if count < self._most and self._larger > 0:
                        self.at_least.append(member_id)
                else:
                    at += 1
                start = at % len(self.below) if self.below else 0
                self._give(partition, member_id)
                continue
            at = self._next_near(partition, self.at_least, 0)
            if at is None:
                rest.append(partition)
                continue
            member_id = self.at_least[at]
            if len(self.shares[member_id]) + 1 == self._most:
                del self.at_least[at]
                self._give_larger()
            self._give(partition, member_id)
        free[:] = rest

    def give(self, free: Sequence[TopicPartition]) -> None:
        """Assign the remaining partitions to members.

        Members with fewer partitions than the smaller share get partitions in turn. Then one more partition goes to
        each member that may have the larger share.

        ``free``: partitions without an owner.
        """
        at = 0
        for partition in free:
            if not self.below:
                self._give(partition, self.at_least.pop(0))
                continue
            at = at if at < len(self.below) else 0
            member_id = self.below[at]
            self._give(partition, member_id)
            if len(self.shares[member_id]) == self._least:
                del self.below[at]
                self.at_least.append(member_id)
            else:
                at += 1

    def _give_larger(self) -> None:
        """Record that a member got the larger share.

        If no larger share is available any more, clear ``at_least``.
        """
        self._larger -= 1
        if not self._larger:
            self.at_least.clear()

    def _next_near(self, partition: TopicPartition, members: Sequence[str], start: int) -> int | None:
        racks = self._racks.replicas[partition[0]][partition[1]]
        for step in range(len(members)):
            at = (start + step) % len(members)
            if self._racks.members.get(members[at]) in racks:
                return at
        return None

    def _give(self, partition: TopicPartition, member_id: str) -> None:
        self.shares[member_id].append(partition)
        if self._revoked.get(partition, member_id) != member_id or partition in self._before.disputed:
            self.moved[partition] = member_id
