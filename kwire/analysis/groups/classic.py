"""The history of classic groups: generations from JoinGroup and SyncGroup, their triggers and their cost.

The first JoinGroup response with a new generation id ends a join phase. All events between the ends of two join phases
belong to the later generation, because one of these events triggers the later generation.
"""

from __future__ import annotations

from collections.abc import Sequence

from kwire.analysis.events import GroupEvent
from kwire.analysis.groups.classic_life import ClassicLife
from kwire.analysis.groups.classic_partitions import Partitions, moved
from kwire.analysis.groups.classic_rules import report_commits, report_gaps
from kwire.analysis.groups.classic_triggers import Triggers
from kwire.analysis.groups.generations import Phase
from kwire.analysis.groups.outcome import (
    COOPERATIVE,
    EAGER,
    EXPIRED,
    JOINED,
    LEFT,
    RESTART,
    UNKNOWN,
    UNSYNCED,
    Membership,
    Outcome,
    Stop,
    Trigger,
)


def fold(out: Outcome, events: Sequence[GroupEvent], until: int | None = None) -> None:
    """Add the rows of one life of a classic group to ``out``.

    A life of a group id ends when the group is deleted, expires or loses its state.

    Args:
        out: rows of the life, to which rows are added.
        events: all events of the life, sorted.
        until: start of the next life, in microseconds since 1970; None for the last life.
    """
    _Generations(ClassicLife(out, events, until)).fold()


class _Generations:
    """A converter of one life of a classic group to rows, generation by generation.

    A life of a group id ends when the group is deleted, expires or loses its state.

    Args:
        life: the life to convert.
    """

    def __init__(self, life: ClassicLife) -> None:
        self.life = life
        self.triggers = Triggers(life)
        self.partitions = Partitions(life)

    def fold(self) -> None:
        before: Phase | None = None
        owners: dict[str, str] = {}
        stops: list[tuple[Phase, dict[str, Stop]]] = []
        for number, phase in enumerate(self.life.phases):
            following = self.life.phases[number + 1] if number + 1 < len(self.life.phases) else None
            triggers = self.triggers.between(before, phase)
            member_stops = self._add_generation(before, phase, owners, triggers)
            stops.append((phase, member_stops))
            owners = owners | self.partitions.owners(phase)
            self._record_static_restarts(phase, following, owners, member_stops)
            before = phase
            if emptied := self._became_empty(phase, following):
                trigger, empty = emptied
                self._leave_empty(phase, trigger, empty)
                before, owners = empty, {}
                self.partitions.free_since.clear()
        self._add_unfinished(before)
        if self.life.until is not None:
            for membership in self.life.memberships.values():
                membership.end(self.life.until, "dropped")
        for phase, member_stops in stops:
            for member in phase.members:
                stop = member_stops.get(member, Stop())
                self.life.out.member(
                    phase.generation, self.life.memberships[member], stop, leader=member == phase.leader
                )
        report_gaps(self.life)
        report_commits(self.life)

    def _add_generation(
        self, before: Phase | None, phase: Phase, owners: dict[str, str], triggers: list[Trigger]
    ) -> dict[str, Stop]:
        """Add the rows of one generation, and return the stop of each member, by member id.

        A stop is the time in which a member waited for its assignment, and the time in which it did not read.

        Args:
            before: previous generation; None for the first.
            phase: generation to add.
            owners: member id of the owner of each partition in the previous generation.
            triggers: possible triggers of the generation, in order of precedence; at least one.
        """
        self._learn_members(phase)
        self._end_memberships(before, phase, triggers)
        shares = {member: share for member, share in phase.shares().items() if member in phase.members}
        kept = self.partitions.same_instance(phase, owners)
        stops = {member: self.partitions.stop_of(phase, member) for member in phase.members}
        self.partitions.free(shares, owners, phase)
        self.partitions.resume(shares, phase, stops)
        for member, share in sorted(shares.items()):
            source = "told" if member in phase.received else "planned"
            self.life.out.share(phase.generation, self.life.memberships[member], share, kept, source)
        self.partitions.report_two_owners(phase, shares)
        jumped = (
            before is not None and phase.generation != before.generation + 1 and phase.generation > before.generation
        )
        first = before is None
        self.life.out.rebalance(
            triggers[0],
            stops.values(),
            from_generation=before.generation if before else 0 if phase.generation == 1 else None,
            to_generation=phase.generation,
            joined_ts=phase.done_ts,
            ended_ts=phase.ended_ts(),
            members_before=sorted(before.members) if before else [] if phase.generation == 1 else None,
            members_after=sorted(phase.members),
            leader=phase.leader,
            protocol_name=phase.protocol,
            stw_kind=COOPERATIVE if phase.cooperative else EAGER,
            partitions_moved=moved(shares, kept),
            incomplete=phase.incomplete() or jumped or (first and phase.generation != 1),
        )
        for member, event in phase.received.items():
            self.partitions.resumed[member] = event.ts
        return stops

    def _learn_members(self, phase: Phase) -> None:
        """Store the members of a generation, with the timeouts and subscriptions in their JoinGroup requests."""
        for member in phase.members:
            if member not in self.life.memberships:
                self.life.memberships[member] = Membership(member_id=member)
        for join in phase.joins:
            if membership := self.life.memberships.get(join.member_id):
                membership.learn(join.sent)
                if membership.joined_ts is None and join.done is not None:
                    membership.joined_ts = join.done.ts

    def _end_memberships(self, before: Phase | None, phase: Phase, triggers: list[Trigger]) -> None:
        """End the membership of members that are not in the new generation, and store the reason.

        For each member that expired, an inferred event ``member_silent`` is added.

        Args:
            before: previous generation; None for the first.
            phase: new generation.
            triggers: possible triggers of the new generation.
        """
        expired = {trigger.member_id: trigger for trigger in triggers if trigger.kind == EXPIRED}
        unsynced = {trigger.member_id: trigger for trigger in triggers if trigger.kind == UNSYNCED}
        for member in before.members if before else []:
            membership = self.life.memberships[member]
            if member in phase.members or membership.left_ts is not None:
                continue
            if trigger := expired.get(member):
                membership.end(trigger.ts, "silent")
                self.life.out.infer(trigger.ts, "member_silent", membership, trigger.evidence)
            elif trigger := unsynced.get(member):
                membership.end(trigger.ts, "dropped")
            elif self._replaced(membership, phase):
                membership.end(phase.done_ts, "replaced")
            elif any(ts <= phase.done_ts for ts in self.life.sessions.gone[member]):
                membership.end(phase.done_ts, "fenced")
            else:
                membership.end(phase.done_ts, "dropped")

    def _replaced(self, membership: Membership, phase: Phase) -> bool:
        named = [self.life.memberships[member].instance_id for member in phase.members]
        return membership.instance_id is not None and membership.instance_id in named

    def _record_static_restarts(
        self, phase: Phase, following: Phase | None, owners: dict[str, str], stops: dict[str, Stop]
    ) -> None:
        """Record the static members that returned with a new member id without a rebalance.

        For each such member, the method adds an inferred event ``static_restart``, ends the membership of the old
        member id, and moves the partitions of the old member id to the new member id.

        Args:
            phase: the generation; the new member ids are added to its members.
            following: the next generation; None for the last one.
            owners: owner of each partition, which is updated.
            stops: stops of the members, by member id. The stops of the returned members are added.
        """
        high = following.done_ts if following else self.life.end
        for join in self.life.joins:
            done = join.done
            if done is None or done.event != "join_done" or done.generation != phase.generation:
                continue
            if not phase.done_ts < join.sent.ts <= high or join.member_id in phase.members:
                continue
            old = [
                m for m in phase.members if self.life.memberships[m].instance_id == join.sent.instance_id is not None
            ]
            membership = self.life.memberships[join.member_id] = Membership(member_id=join.member_id, joined_ts=done.ts)
            membership.learn(join.sent)
            phase.members.append(join.member_id)
            response = phase.received.get(join.member_id)
            stop = stops[join.member_id] = Stop(resumed=response.ts if response else None, asked=join.asked)
            if response:
                self.partitions.resumed[join.member_id] = response.ts
                self.life.out.share(phase.generation, membership, response.partitions or [], owners, "told")
            for member in old:
                self.life.memberships[member].end(join.sent.ts, "replaced")
                stop.stopped = self.life.sessions.last_sign(member, join.sent.ts) if response else None
                for partition, owner in list(owners.items()):
                    if owner == member:
                        owners[partition] = join.member_id
            earlier = f"it was {old[0]}" if old else "its previous id was not captured"
            reason = f"instance {join.sent.instance_id} came back, {earlier}; no rebalance"
            self.life.out.infer(done.ts, "static_restart", membership, reason, generation=phase.generation)

    # --- ends ---

    def _became_empty(self, phase: Phase, following: Phase | None) -> tuple[Trigger, Phase] | None:
        """Return the trigger and the empty generation that followed a generation because all members left or expired.

        The result is None if members remained, if a member joined before all members had left, or if the id of the next
        captured generation leaves no room for an empty generation. Memberships of members that expired are ended, and
        an inferred event ``member_silent`` is added for each of these members.

        Args:
            phase: the generation with members.
            following: the next captured generation; None if ``phase`` is the last one.
        """
        if following is not None and following.generation < phase.generation + 2:
            return None
        high = following.done_ts if following else self.life.end
        departures = list(self.triggers.departures(set(phase.members), phase.done_ts, high, None))
        if following is None and self.life.until is None:
            departures = [trigger for trigger in departures if trigger.kind == LEFT]
        gone = {trigger.member_id for trigger in departures}
        gone |= {member for member in phase.members if self.life.memberships[member].left_how == "replaced"}
        if not departures or gone < set(phase.members):
            return None
        last = max(trigger.ts for trigger in departures)
        waiting = following.joins if following else [j for j in self.life.joins if j.done is None]
        if any(phase.done_ts < join.sent.ts < last for join in waiting):
            return None
        for trigger in departures:
            if trigger.kind == EXPIRED and trigger.member_id:
                membership = self.life.memberships[trigger.member_id]
                membership.end(trigger.ts, "silent")
                self.life.out.infer(trigger.ts, "member_silent", membership, trigger.evidence)
        return min(departures, key=lambda trigger: trigger.rank), Phase(phase.generation + 1, last)

    def _leave_empty(self, phase: Phase, trigger: Trigger, empty: Phase) -> None:
        self.life.out.rebalance(
            trigger,
            [],
            from_generation=phase.generation,
            to_generation=empty.generation,
            joined_ts=empty.done_ts,
            ended_ts=empty.done_ts,
            members_before=sorted(phase.members),
            members_after=[],
            partitions_moved=0,
            incomplete=False,
        )

    def _add_unfinished(self, before: Phase | None) -> None:
        """Add the row of a rebalance that had begun but was not complete at the last event, if there was one.

        ``before``: the last generation. None if no generation was captured; then no row is added.
        """
        if before is None:
            return
        triggers = [
            t for t in self.triggers.between(before, None) if t.kind in (LEFT, JOINED, RESTART, EXPIRED, UNKNOWN)
        ]
        if not triggers or (not before.members and triggers[0].kind != JOINED):
            return
        self.life.out.rebalance(
            triggers[0],
            [],
            from_generation=before.generation,
            ended_ts=None,
            members_before=sorted(before.members),
            incomplete=True,
        )
