"""Epochs of a group with server-side assignment.

Each epoch is a rebalance. The rebalance begins when the first member receives the epoch. It ends when the last member
has received the epoch or partitions in it.
"""

from __future__ import annotations

from dataclasses import field

from kwire.analysis.events import GroupEvent
from kwire.analysis.groups.consumer_members import Member, Members
from kwire.analysis.groups.outcome import BY_BROKER, LEFT, UNKNOWN, Membership, Stop, Trigger
from kwire.lazy_dataclass import dataclass


@dataclass(slots=True)
class Epoch:
    """A group epoch, and the rebalance that leads to it. Times are microseconds since 1970.

    Attributes:
        number: group epoch.
        before: previous group epoch; None if it was not captured.
        first_ts: time at which the first member received the epoch.
        ended_ts: time at which the last member so far received the epoch or partitions in it.
        trigger: trigger of the rebalance.
        members_before: member ids of the previous epoch; None if they were not captured.
        owners: owners of partitions in the previous epoch.
        reached: ids of members that received the epoch.
        stops: by member id, the time in which the member waited for its assignment and did not read.
        seen_from_start: True if the previous epoch was captured, or this is the first epoch.
        late: member ids of static members that returned during the epoch. They are not part of the rebalance.
        replaced: old member id by new member id, for the members in ``late`` that returned with a new member id.
    """

    number: int
    before: int | None
    first_ts: int
    ended_ts: int
    trigger: Trigger
    members_before: list[str] | None
    owners: dict[str, str]
    reached: set[str] = field(default_factory=set)
    stops: dict[str, Stop] = field(default_factory=dict)
    seen_from_start: bool = True
    late: set[str] = field(default_factory=set)
    replaced: dict[str, str] = field(default_factory=dict)

    def keeps_stop(self, name: str) -> bool:
        """Return whether the recorded stop of a member must not change any more.

        This is so for a static member that returned during the epoch with the same member id: its stop in the rebalance
        is already recorded. ``name``: member id.
        """
        return name in self.late and name not in self.replaced


class Epochs:
    """The epochs of one life of a group with server-side assignment.

    A life of a group id ends when the group is deleted, expires or loses its state.

    Args:
        members: members of the life, which the epochs read and change.

    Attributes:
        current: current epoch; None before the first.
        owners: member id of the latest known owner of each partition before the current epoch.
        stops: stops of all members in all earlier epochs, as (epoch number, member, stop). A stop is the time in which
            a member waited for its assignment and did not read.
    """

    def __init__(self, members: Members) -> None:
        self.members = members
        self.current: Epoch | None = None
        self.owners: dict[str, str] = {}
        self.stops: list[tuple[int, Membership, Stop]] = []
        self._previous: list[str] = []  # members of the previous epoch

    def reach(self, event: GroupEvent, member: Member, asked: int) -> None:
        """Record that a member received an epoch. If the epoch is new, close the current epoch and begin the new one.

        The epoch of the member, and its stop in the rebalance, are updated.

        Args:
            event: response to the member, with the epoch.
            member: the member.
            asked: time of the member's request, in microseconds since 1970.
        """
        self.advance(event)
        number = event.generation or 0
        member.epoch = number
        assert self.current is not None
        if number == self.current.number:
            name = member.membership.member_id
            self.current.reached.add(name)
            self.extend(member, event.ts)
            if self.current.keeps_stop(name):
                return
            stop = self.current.stops.setdefault(name, Stop())
            stop.asked = asked if name in self.current.late else min(asked, self.current.trigger.ts)
            stop.resumed = stop.resumed or event.ts

    def extend(self, member: Member, ts: int) -> None:
        """Move the end of the current rebalance to a later time, because a member received the epoch or partitions.

        A static member that returned during the epoch does not move the end.

        Args:
            member: the member.
            ts: time at which the member received the epoch or the partitions, in microseconds since 1970.
        """
        if self.current is not None and member.membership.member_id not in self.current.late:
            self.current.ended_ts = max(self.current.ended_ts, ts)

    def advance(self, event: GroupEvent) -> None:
        """Close the current epoch and begin the epoch of a response. Do nothing if this epoch has already begun.

        Before the current epoch is closed, ``Members.notice_silent`` ends the membership of expired members.

        ``event``: response with the epoch.
        """
        number = event.generation or 0
        if self.current is None or number > self.current.number:
            self.members.notice_silent(event.ts)
            self.close()
            self._open(number, event.ts)

    def _open(self, number: int, ts: int) -> None:
        earlier = self.current
        triggers = sorted(self.members.triggers, key=lambda trigger: trigger.rank)
        trigger = (
            triggers[0] if triggers else Trigger(ts=ts, kind=UNKNOWN, evidence="a new epoch without a visible cause")
        )
        self.members.triggers = []
        known = earlier is not None or number == 1
        self.current = Epoch(
            number,
            earlier.number if earlier else 0 if number == 1 else None,
            ts,
            ts,
            trigger,
            list(self._previous) if earlier else [] if known else None,
            dict(self.owners),
            seen_from_start=known,
        )

    def close(self) -> None:
        """Add rows for the rebalance and the assignments of the current epoch, and record the stops of its members.

        The method also updates ``owners``, and clears ``members.departed``. It does nothing before the first epoch.
        """
        epoch = self.current
        if epoch is None:
            return
        replaced = set(epoch.replaced.values())
        departed = {name: member for name, member in self.members.departed.items() if name in epoch.reached | replaced}
        there = dict(sorted((departed | self.members.now).items()))
        shares = {name: sorted(member.assigned) for name, member in there.items()}
        after = [name for name in there if name not in epoch.replaced]
        moved = sum(epoch.owners.get(p, name) != name for name in after for p in shares[name])
        for name, member in there.items():
            before = dict.fromkeys(shares[name], epoch.replaced[name]) if name in epoch.replaced else epoch.owners
            self.members.out.share(epoch.number, member.membership, shares[name], before, "told")
            self.stops.append((epoch.number, member.membership, epoch.stops.get(name, Stop())))
        self.members.out.rebalance(
            epoch.trigger,
            [stop for name, stop in epoch.stops.items() if name not in epoch.replaced],
            from_generation=epoch.before,
            to_generation=epoch.number,
            joined_ts=epoch.first_ts,
            ended_ts=epoch.ended_ts,
            members_before=epoch.members_before,
            members_after=after,
            stw_kind=BY_BROKER,
            partitions_moved=moved,
            incomplete=not epoch.seen_from_start
            or any(name not in epoch.reached and member.away is None for name, member in self.members.now.items()),
        )
        present = [name for name in there if name not in replaced]
        self.owners |= {partition: name for name in present for partition in shares[name]}
        self._previous = present
        self.members.departed = {}

    def finish(self) -> None:
        """Add a row of ``rebalances`` if members left after the last captured epoch.

        The coordinator increments the group epoch for each member that leaves, but no response contains the new epoch.
        """
        gone = [trigger for trigger in self.members.triggers if trigger.kind == LEFT]
        if not gone or self.current is None:
            return
        empty = not any(member.away is None for member in self.members.now.values())
        self.members.out.rebalance(
            min(self.members.triggers, key=lambda trigger: trigger.rank),
            [],
            from_generation=self.current.number,
            to_generation=self.current.number + len(gone) if empty else None,
            joined_ts=gone[-1].ts if empty else None,
            ended_ts=gone[-1].ts if empty else None,
            members_before=self._previous,
            members_after=[] if empty else None,
            partitions_moved=0 if empty else None,
            incomplete=not empty,
        )

    def resume(self, event: GroupEvent, member: Member, since: int | None) -> None:
        """Record that a member received partitions, which ends the time in which these partitions had no reader.

        If a member receives partitions several times in an epoch, the longest such time is recorded as its stop.
        Nothing is recorded before the first epoch, or if ``Epoch.keeps_stop`` is True.

        Args:
            event: response with the assignment.
            member: the member.
            since: time since which the partitions had no reader, in microseconds since 1970; None if the partitions
                always had a reader.
        """
        if self.current is None or self.current.keeps_stop(member.membership.member_id):
            return
        stop = self.current.stops.setdefault(member.membership.member_id, Stop())
        longest = 0 if stop.stopped is None or stop.resumed is None else stop.resumed - stop.stopped
        if not longest or (since is not None and event.ts - since > longest):
            stop.stopped, stop.resumed = since, event.ts
