"""The owners of partitions of a classic group across generations, and the periods in which a partition has no
reader.
"""

from __future__ import annotations

from kwire.analysis.groups.classic_life import ClassicLife
from kwire.analysis.groups.generations import Phase
from kwire.analysis.groups.outcome import Stop


class Partitions:
    """The owners of partitions in one life of a classic group, and the periods in which partitions had no reader.

    Times are microseconds since 1970.

    Args:
        life: the life.

    Attributes:
        free_since: for each partition that no member reads, the time since which it has had no reader.
        resumed: time at which a member received its latest assignment, by member id.
    """

    def __init__(self, life: ClassicLife) -> None:
        self.life = life
        self.free_since: dict[str, int] = {}
        self.resumed: dict[str, int] = {}

    def stop_of(self, phase: Phase, member: str) -> Stop:
        """Return the stop of a member in the rebalance that led to a generation.

        A stop is the time in which a member waits for its assignment. It begins with the first JoinGroup that the
        member sent after its previous assignment. It ends when the member receives its assignment in this generation,
        and has no end if the member receives none. An eager member also stops reading at the beginning of the stop.

        Args:
            phase: the generation.
            member: member id.
        """
        response, last = phase.received.get(member), self.resumed.get(member)
        until = phase.done_ts if response is None else response.ts
        asked = [
            join.asked
            for join in self.life.asks[member]
            if (last is None or join.sent.ts > last) and join.sent.ts <= until
        ]
        stop = Stop(resumed=None if response is None else response.ts, asked=min(asked, default=None))
        if last is not None and not phase.cooperative:
            stop.stopped = stop.asked
        return stop

    def free(self, shares: dict[str, list[str]], owners: dict[str, str], phase: Phase) -> None:
        """Record when partitions lost their reader in a rebalance.

        A partition is no longer read if its owner is no longer a member, or if the owner is a cooperative member whose
        new assignment lacks the partition.

        Args:
            shares: partitions in this generation, by member id.
            owners: owner of each partition in the previous generation.
            phase: this generation.
        """
        for partition, owner in owners.items():
            if owner not in phase.members:
                self.free_since.setdefault(partition, self._stopped_reading_at(owner, phase))
            elif phase.cooperative and partition not in shares.get(owner, []):
                response = phase.received.get(owner)
                self.free_since.setdefault(partition, response.ts if response else phase.done_ts)

    def _stopped_reading_at(self, owner: str, phase: Phase) -> int:
        """Return the time at which a former member stopped reading, in microseconds since 1970.

        This is the time of its LeaveGroup, or of its last request if it sent no LeaveGroup. If the member was active
        after the end of its membership, the result is this end.

        Args:
            owner: member id.
            phase: first generation without the member. The time of this generation is the result if nothing else is
                known.
        """
        membership = self.life.memberships[owner]
        left = phase.done_ts if membership.left_ts is None else membership.left_ts
        if membership.left_how == "leave" or self.life.sessions.is_heard(owner, left):
            return left
        return self.life.sessions.last_sign(owner, left) or left

    def resume(self, shares: dict[str, list[str]], phase: Phase, stops: dict[str, Stop]) -> None:
        """Extend the stops of members that received partitions without a reader. A stop is explained in ``stop_of``.

        The time without reading of such a member begins when the first of these partitions lost its reader. The
        partitions are removed from ``free_since``. After a complete eager rebalance, all partitions are removed.

        Args:
            shares: partitions in this generation, by member id.
            phase: this generation.
            stops: stops of the members, by member id, which are updated.
        """
        for member in phase.received:
            share, stop = shares.get(member, []), stops.get(member)
            freed = [self.free_since.pop(partition) for partition in share if partition in self.free_since]
            if freed and stop is not None:
                stop.stopped = min(freed) if stop.stopped is None else min(*freed, stop.stopped)
        if not phase.cooperative and shares and not phase.incomplete():
            self.free_since.clear()  # partitions without a new owner are no longer subscribed to

    def same_instance(self, phase: Phase, owners: dict[str, str]) -> dict[str, str]:
        """Return the member id of the owner of each partition in the previous generation.

        If a static member has returned with a new member id, the new member id replaces the old member id.

        Args:
            phase: this generation, which contains the new member ids.
            owners: owner of each partition in the previous generation, with the old member ids.
        """
        by_instance = {
            self.life.memberships[m].instance_id: m for m in phase.members if self.life.memberships[m].instance_id
        }
        return {
            partition: by_instance.get(self.life.memberships[owner].instance_id, owner)
            for partition, owner in owners.items()
        }

    def owners(self, phase: Phase) -> dict[str, str]:
        return {
            partition: member
            for member, share in sorted(phase.shares().items())
            if member in self.life.memberships
            for partition in share
        }

    def report_two_owners(self, phase: Phase, shares: dict[str, list[str]]) -> None:
        owners: dict[str, str] = {}
        for member, share in sorted(shares.items()):
            for partition in share:
                other = owners.setdefault(partition, member)
                if other == member:
                    continue
                membership = self.life.memberships[member]
                topic, _, index = partition.rpartition("-")
                self.life.out.violation(
                    phase.received[member].ts if member in phase.received else phase.done_ts,
                    "two_owners",
                    f"{partition} was assigned to {other} and {member} in generation {phase.generation}",
                    generation=phase.generation,
                    member_id=member,
                    client_id=membership.client_id,
                    topic=topic,
                    partition=int(index),
                )


def moved(shares: dict[str, list[str]], owners: dict[str, str]) -> int:
    return sum(owners.get(partition, member) != member for member, share in shares.items() for partition in share)
