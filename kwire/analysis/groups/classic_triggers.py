"""Triggers of generations of a classic group: members that join, leave, expire or change their subscription."""

from __future__ import annotations

from collections.abc import Iterator

from kwire.analysis.columns import MS
from kwire.analysis.events import GroupEvent
from kwire.analysis.groups.classic_life import ClassicLife
from kwire.analysis.groups.generations import Phase
from kwire.analysis.groups.joins import Join
from kwire.analysis.groups.outcome import (
    EXPIRED,
    JOINED,
    LEFT,
    METADATA,
    MOVED,
    RESTART,
    REVOCATION,
    SUBSCRIPTION,
    UNKNOWN,
    UNSYNCED,
    Trigger,
)
from kwire.analysis.groups.sessions import REBALANCE
from kwire.errorcodes import ErrorCode

SLACK = 250 * MS  # tolerance between the end of a session and the rebalance, for clock differences


class Triggers:
    """A finder of the triggers of each generation of a classic group: what caused its rebalance.

    Args:
        life: one life of the group; a life ends when the group is deleted, expires or loses its state. Memberships of
            members that left are ended in this object.
    """

    def __init__(self, life: ClassicLife) -> None:
        self.life = life

    def between(self, before: Phase | None, phase: Phase | None) -> list[Trigger]:
        """Return the possible triggers of the rebalance between two generations, in order of precedence.

        The result has at least one trigger if ``phase`` is given: a trigger of the kind UNKNOWN if nothing else is
        known. Memberships of members that left are ended.

        Args:
            before: earlier generation; None if ``phase`` is the first.
            phase: later generation; None for a rebalance that was not complete when the events ended.
        """
        low = before.done_ts if before else -1
        high = phase.done_ts if phase else self.life.end
        known = set(before.members) if before else set()
        waited = (
            phase.joins if phase else [join for join in self.life.joins if low < join.sent.ts and join.done is None]
        )
        triggers = [*self.departures(known, low, high, set(phase.members) if phase else None)]
        triggers += [trigger for join in waited if (trigger := self._trigger_of_join(join, before, low)) is not None]
        if before is not None or phase is None or not self._is_new(phase):
            triggers += self._of_coordinator(low, high)
        if before is not None and phase is not None:
            triggers += self._sync_timeouts(before, low, phase)
        between = self.life.sessions.notable_between(low, high)
        first = next((event.ts for event in between if event.member_id and event.error_code == REBALANCE), None)
        if phase is None and first is None:
            triggers = [trigger for trigger in triggers if trigger.kind not in (EXPIRED, MOVED)]
        caused = first is not None and any(trigger.ts <= first + SLACK for trigger in triggers)
        if first is not None and not caused:
            triggers.append(
                Trigger(ts=first, kind=UNKNOWN, evidence="members were asked to rejoin without a visible cause")
            )
        if not triggers and phase is not None:
            ts = min((join.sent.ts for join in phase.joins), default=phase.done_ts)
            triggers.append(Trigger(ts=max(ts, low), kind=UNKNOWN, evidence="the first JoinGroup that waited"))
        for trigger in triggers:
            if trigger.kind == EXPIRED and first is not None and (trigger.ts <= first + SLACK or not caused):
                trigger.ts = min(trigger.ts, first)
        return sorted(triggers, key=lambda trigger: trigger.rank)

    def departures(self, known: set[str], low: int, high: int, after: set[str] | None) -> Iterator[Trigger]:
        """Yield a trigger for each member that left or whose session expired; end the membership of members that left.

        The membership of a member whose session expired is not ended.

        Args:
            known: member ids of the current generation.
            low: start of the period in which events are used, in microseconds since 1970.
            high: end of this period, in microseconds since 1970.
            after: member ids of the next generation, whose sessions cannot have expired; None without a next
                generation.
        """
        left = set()
        for event in self.life.sessions.notable_between(low, high):
            if event.event != "leave" or event.error_code:
                continue
            member = self._leaving_member(event, known)
            if member is None:
                continue
            left.add(member)
            membership = self.life.memberships[member]
            membership.end(event.ts, "leave")
            why = f": {event.reason}" if event.reason else ""
            yield Trigger(
                ts=event.ts,
                kind=LEFT,
                member_id=member,
                client_id=membership.client_id,
                evidence=f"LeaveGroup{why}",
            )
        for member in sorted(known - left - (after or set())):
            membership = self.life.memberships[member]
            over = self.life.sessions.over(membership, high)
            if over is not None and over <= high and membership.left_ts is None:
                yield Trigger(
                    ts=max(over, low),
                    kind=EXPIRED,
                    member_id=member,
                    client_id=membership.client_id,
                    evidence=f"no request within its session timeout of {membership.session_timeout_ms} ms",
                )

    def _sync_timeouts(self, before: Phase, low: int, after: Phase) -> Iterator[Trigger]:
        """Yield a trigger for each member that the coordinator removed because it sent no SyncGroup in time.

        The time limit is the rebalance timeout after the join phase.

        Args:
            before: generation in which the members should have sent SyncGroup.
            low: end of the join phase of ``before``, in microseconds since 1970.
            after: the next generation. Its members were not removed.
        """
        timeouts = [
            timeout for m in before.members if (timeout := self.life.memberships[m].rebalance_timeout_ms) is not None
        ]
        over = low + max(timeouts, default=0) * MS
        if not timeouts or over > after.done_ts:
            return
        for member in sorted(before.members):
            membership = self.life.memberships[member]
            if (
                member in after.members
                or membership.gone(over)
                or (before.generation, member) in self.life.sessions.synced
            ):
                continue
            evidence = f"no SyncGroup within the rebalance timeout of {max(timeouts)} ms"
            yield Trigger(ts=over, kind=UNSYNCED, member_id=member, client_id=membership.client_id, evidence=evidence)

    def _leaving_member(self, event: GroupEvent, known: set[str]) -> str | None:
        if event.member_id:
            return event.member_id if event.member_id in known else None
        named = [
            m for m in sorted(known) if event.instance_id and self.life.memberships[m].instance_id == event.instance_id
        ]
        return named[-1] if named else None

    def _trigger_of_join(self, join: Join, before: Phase | None, low: int) -> Trigger | None:
        """Return the trigger of a rebalance (such as a new member) that a JoinGroup shows.

        The result is None if the member sent JoinGroup only because of REBALANCE_IN_PROGRESS, or if it may have joined
        before the capture began.

        Args:
            join: JoinGroup request with its response.
            before: the previous generation; None before the first.
            low: end of the join phase of the previous generation, in microseconds since 1970.
        """
        sent, member = join.sent, join.member_id
        ts = max(sent.ts, low)
        trigger = Trigger(ts=ts, kind=JOINED, member_id=member or None, client_id=sent.client_id)
        known = before.members if before else []
        is_whole = before is not None or join.done is None or (join.done.generation or 0) <= 1
        if not is_whole and member not in self.life.sessions.new:
            return None  # it may have been a member before the capture began
        if member not in known:
            same = [m for m in known if sent.instance_id and self.life.memberships[m].instance_id == sent.instance_id]
            if same:
                trigger.kind, trigger.evidence = (
                    RESTART,
                    f"JoinGroup of instance {sent.instance_id} under a new member id",
                )
            else:
                trigger.evidence = "JoinGroup of a new member"
            return trigger
        assert before is not None
        if any(low < ts <= sent.ts for ts in self.life.sessions.refused[member]):
            return None
        earlier = [ask for ask in self.life.asks[member] if ask.sent.ts < sent.ts and ask.done is not None]
        last = earlier[-1] if earlier else None
        if last is not None and last.sent.topics != sent.topics:
            trigger.kind, trigger.evidence = (
                SUBSCRIPTION,
                f"JoinGroup with other topics: {', '.join(sent.topics or [])}",
            )
        elif before.cooperative and last is not None and self._gave_up(before, last):
            trigger.kind, trigger.evidence = REVOCATION, "JoinGroup after it revoked partitions"
        elif member == before.leader:
            trigger.kind, trigger.evidence = METADATA, "the leader rejoined on its own"
        else:
            trigger.kind, trigger.evidence = UNKNOWN, "a member rejoined on its own"
        return trigger

    def _gave_up(self, before: Phase, last: Join) -> bool:
        response = before.received.get(last.member_id)
        return response is not None and bool(set(last.sent.partitions or []) - set(response.partitions or []))

    def _is_new(self, first: Phase) -> bool:
        """Return whether the group did not exist before. ``first``: first generation of the life."""
        return first.generation == 1 and self.life.out.life == 1

    def _of_coordinator(self, low: int, high: int) -> Iterator[Trigger]:
        for event in self.life.sessions.notable_between(low, high):
            if event.error_code == ErrorCode.NOT_COORDINATOR:
                yield Trigger(ts=event.ts, kind=MOVED, evidence=f"{event.event}: NOT_COORDINATOR from {event.broker}")
                return
