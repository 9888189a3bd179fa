"""Classic groups: generations out of JoinGroup and SyncGroup, what set each off, and what it cost.

A generation shows in the answers to JoinGroup: the first answer that names it ends its join phase. Everything between
two such moments belongs to the later of the two generations, so that is where its trigger is looked for.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise

from kwire.analysis.columns import MS
from kwire.analysis.events import GroupEvent
from kwire.analysis.groups.generations import Phase, phases_of
from kwire.analysis.groups.joins import Join, joins_of
from kwire.analysis.groups.outcome import (
    COOPERATIVE,
    EAGER,
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
    Membership,
    Outcome,
    Stop,
    Trigger,
)
from kwire.analysis.groups.sessions import GONE, REBALANCE, Sessions
from kwire.errorcodes import ErrorCode

SLACK = 250 * MS  # by how much a session may seem to end after the others were told: clocks of brokers and captures


def fold(out: Outcome, events: Sequence[GroupEvent], until: int | None = None) -> None:
    """What happened in one life of a classic group. ``events``: all of it, sorted; ``until``: when the next began."""
    _Group(out, events, until).fold()


class _Group:
    def __init__(self, out: Outcome, events: Sequence[GroupEvent], until: int | None) -> None:
        self.out = out
        self.events = events
        self.until = until
        self.end = events[-1].ts if until is None else until
        self.joins = joins_of(events)
        self.phases = phases_of(events, self.joins)
        self.sessions = Sessions(events)
        self.people: dict[str, Membership] = {}
        self.asks: dict[str, list[Join]] = defaultdict(list)
        for join in self.joins:
            if join.member_id:
                self.asks[join.member_id].append(join)
        self.free_since: dict[str, int] = {}
        self.resumed: dict[str, int] = {}  # when a member was last told a share

    def fold(self) -> None:
        before: Phase | None = None
        owners: dict[str, str] = {}
        stops: list[tuple[Phase, dict[str, Stop]]] = []
        for number, phase in enumerate(self.phases):
            following = self.phases[number + 1] if number + 1 < len(self.phases) else None
            triggers = self._triggers(before, phase)
            found = self._enter(before, phase, owners, triggers)
            stops.append((phase, found))
            owners = owners | self._owners(phase)
            self._restarts(phase, following, owners, found)
            before = phase
            if emptied := self._emptied(phase, following):
                trigger, empty = emptied
                self._leave_empty(phase, trigger, empty)
                before, owners = empty, {}
                self.free_since.clear()
        self._unfinished(before)
        if self.until is not None:
            for person in self.people.values():
                person.end(self.until, "dropped")
        for phase, found in stops:
            for member in phase.members:
                stop = found.get(member, Stop())
                self.out.member(phase.generation, self.people[member], stop, leader=member == phase.leader)
        self._gaps()
        self._commits()

    # --- triggers ---

    def _triggers(self, before: Phase | None, phase: Phase | None) -> list[Trigger]:
        """What happened between two generations that may have set off the second, the first in time first."""
        low = before.done_ts if before else -1
        high = phase.done_ts if phase else self.end
        known = set(before.members) if before else set()
        waited = phase.joins if phase else [join for join in self.joins if low < join.sent.ts and join.done is None]
        found = [*self._departures(known, low, high, set(phase.members) if phase else None)]
        found += [trigger for join in waited if (trigger := self._of_join(join, before, low)) is not None]
        found += self._of_coordinator(low, high)
        if before is not None and phase is not None:
            found += self._unsynced(before, low, phase)
        between = self.sessions.between(low, high)
        first = next((event.ts for event in between if event.member_id and event.error_code == REBALANCE), None)
        if phase is None and first is None:
            found = [trigger for trigger in found if trigger.kind not in (EXPIRED, MOVED)]
        if first is not None and not any(trigger.ts <= first + SLACK for trigger in found):
            found.append(
                Trigger(ts=first, kind=UNKNOWN, evidence="members were asked to rejoin before anything was seen")
            )
        if not found and phase is not None:
            ts = min((join.sent.ts for join in phase.joins), default=phase.done_ts)
            found.append(Trigger(ts=max(ts, low), kind=UNKNOWN, evidence="the first JoinGroup that waited"))
        for trigger in found:
            if trigger.kind == EXPIRED and first is not None:
                trigger.ts = min(trigger.ts, first)
        return sorted(found, key=lambda trigger: trigger.rank)

    def _departures(self, known: set[str], low: int, high: int, after: set[str] | None) -> Iterator[Trigger]:
        """Members that left, and those whose session ran out. ``after``: the members of the next generation."""
        left = set()
        for event in self.sessions.between(low, high):
            if event.event != "leave" or event.error_code:
                continue
            member = self._who_left(event, known)
            if member is None:
                continue
            left.add(member)
            person = self.people[member]
            person.end(event.ts, "leave")
            why = f": {event.reason}" if event.reason else ""
            yield Trigger(
                ts=event.ts,
                kind=LEFT,
                member_id=member,
                client_id=person.client_id,
                evidence=f"LeaveGroup{why}",
            )
        for member in sorted(known - left - (after or set())):
            person = self.people[member]
            over = self.sessions.over(person, high)
            if over is not None and over <= high and person.left_ts is None:
                yield Trigger(
                    ts=max(over, low),
                    kind=EXPIRED,
                    member_id=member,
                    client_id=person.client_id,
                    evidence=f"nothing heard for its session timeout of {person.session_timeout_ms} ms",
                )

    def _unsynced(self, before: Phase, low: int, after: Phase) -> Iterator[Trigger]:
        """Members that were told a generation and did not ask for their share of it in time."""
        timeouts = [timeout for m in before.members if (timeout := self.people[m].rebalance_timeout_ms) is not None]
        over = low + max(timeouts, default=0) * MS
        if not timeouts or over > after.done_ts:
            return
        for member in sorted(before.members):
            person = self.people[member]
            if member in after.members or person.gone(over) or (before.generation, member) in self.sessions.synced:
                continue
            said = f"no SyncGroup of it within the rebalance timeout of {max(timeouts)} ms"
            yield Trigger(ts=over, kind=UNSYNCED, member_id=member, client_id=person.client_id, evidence=said)

    def _who_left(self, event: GroupEvent, known: set[str]) -> str | None:
        if event.member_id:
            return event.member_id if event.member_id in known else None
        named = [m for m in sorted(known) if event.instance_id and self.people[m].instance_id == event.instance_id]
        return named[-1] if named else None

    def _of_join(self, join: Join, before: Phase | None, low: int) -> Trigger | None:
        """What a JoinGroup that waited says of the reason; None if it came because others were rejoining."""
        sent, member = join.sent, join.member_id
        ts = max(sent.ts, low)
        trigger = Trigger(ts=ts, kind=JOINED, member_id=member or None, client_id=sent.client_id)
        known = before.members if before else []
        if member not in known:
            same = [m for m in known if sent.instance_id and self.people[m].instance_id == sent.instance_id]
            if same:
                trigger.kind, trigger.evidence = (
                    RESTART,
                    f"JoinGroup of instance {sent.instance_id} under a new member id",
                )
            else:
                trigger.evidence = "JoinGroup of a member that was not there"
            return trigger
        assert before is not None
        if any(low < ts <= sent.ts for ts in self.sessions.refused[member]):
            return None
        earlier = [ask for ask in self.asks[member] if ask.sent.ts < sent.ts and ask.done is not None]
        last = earlier[-1] if earlier else None
        if last is not None and last.sent.topics != sent.topics:
            trigger.kind, trigger.evidence = (
                SUBSCRIPTION,
                f"JoinGroup with other topics: {', '.join(sent.topics or [])}",
            )
        elif before.cooperative and last is not None and self._gave_up(before, last):
            trigger.kind, trigger.evidence = REVOCATION, "JoinGroup after it gave up partitions"
        elif member == before.leader:
            trigger.kind, trigger.evidence = METADATA, "the leader rejoined unasked"
        else:
            trigger.kind, trigger.evidence = UNKNOWN, "a member rejoined unasked"
        return trigger

    def _gave_up(self, before: Phase, last: Join) -> bool:
        told = before.told.get(last.member_id)
        return told is not None and bool(set(last.sent.partitions or []) - set(told.partitions or []))

    def _of_coordinator(self, low: int, high: int) -> Iterator[Trigger]:
        for event in self.sessions.between(low, high):
            if event.error_code == ErrorCode.NOT_COORDINATOR:
                yield Trigger(ts=event.ts, kind=MOVED, evidence=f"{event.event}: NOT_COORDINATOR from {event.broker}")
                return

    # --- generations ---

    def _enter(
        self, before: Phase | None, phase: Phase, owners: dict[str, str], triggers: list[Trigger]
    ) -> dict[str, Stop]:
        """Rows of one generation; what its members waited."""
        self._meet(phase)
        self._part(before, phase, triggers)
        shares = {member: share for member, share in phase.shares().items() if member in phase.members}
        kept = self._same_instance(phase, owners)
        stops = {member: self._stop(phase, member) for member in phase.members}
        self._free(shares, owners, phase)
        self._resume(shares, phase, stops)
        for member, share in sorted(shares.items()):
            source = "told" if member in phase.told else "planned"
            self.out.share(phase.generation, self.people[member], share, kept, source)
        self._two_owners(phase, shares)
        jumped = (
            before is not None and phase.generation != before.generation + 1 and phase.generation > before.generation
        )
        first = before is None
        self.out.rebalance(
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
            partitions_moved=_moved(shares, kept),
            incomplete=phase.incomplete() or jumped or (first and phase.generation != 1),
        )
        for member, event in phase.told.items():
            self.resumed[member] = event.ts
        return stops

    def _meet(self, phase: Phase) -> None:
        """Everybody in the generation is known, and what their JoinGroups say of them."""
        for member in phase.members:
            if member not in self.people:
                self.people[member] = Membership(member_id=member)
        for join in phase.joins:
            if person := self.people.get(join.member_id):
                person.learn(join.sent)
                if person.joined_ts is None and join.done is not None:
                    person.joined_ts = join.done.ts

    def _part(self, before: Phase | None, phase: Phase, triggers: list[Trigger]) -> None:
        """Who is not in the generation any more ends."""
        expired = {trigger.member_id: trigger for trigger in triggers if trigger.kind == EXPIRED}
        unsynced = {trigger.member_id: trigger for trigger in triggers if trigger.kind == UNSYNCED}
        for member in before.members if before else []:
            person = self.people[member]
            if member in phase.members or person.left_ts is not None:
                continue
            if trigger := expired.get(member):
                person.end(trigger.ts, "silent")
                self.out.infer(trigger.ts, "member_silent", person, trigger.evidence)
            elif trigger := unsynced.get(member):
                person.end(trigger.ts, "dropped")
            elif self._replaced(person, phase):
                person.end(phase.done_ts, "replaced")
            elif any(ts <= phase.done_ts for ts in self.sessions.gone[member]):
                person.end(phase.done_ts, "fenced")
            else:
                person.end(phase.done_ts, "dropped")

    def _replaced(self, person: Membership, phase: Phase) -> bool:
        named = [self.people[member].instance_id for member in phase.members]
        return person.instance_id is not None and person.instance_id in named

    def _stop(self, phase: Phase, member: str) -> Stop:
        """From the first JoinGroup since its last share to this one, or without an end if it received none."""
        told, last = phase.told.get(member), self.resumed.get(member)
        until = phase.done_ts if told is None else told.ts
        asked = [
            join.asked for join in self.asks[member] if (last is None or join.sent.ts > last) and join.sent.ts <= until
        ]
        stop = Stop(resumed=None if told is None else told.ts, asked=min(asked, default=None))
        if last is not None and not phase.cooperative:
            stop.stopped = stop.asked
        return stop

    def _free(self, shares: dict[str, list[str]], owners: dict[str, str], phase: Phase) -> None:
        """Since when partitions are not read: their owner is gone, or cooperative and has a share without them."""
        for partition, owner in owners.items():
            if owner not in phase.members:
                self.free_since.setdefault(partition, self._gone_since(owner, phase))
            elif phase.cooperative and partition not in shares.get(owner, []):
                told = phase.told.get(owner)
                self.free_since.setdefault(partition, told.ts if told else phase.done_ts)

    def _gone_since(self, owner: str, phase: Phase) -> int:
        """When a member of the generation before left, or sent its last request if it did not leave."""
        person = self.people[owner]
        left = phase.done_ts if person.left_ts is None else person.left_ts
        if person.left_how == "leave" or self.sessions.is_heard(owner, left):
            return left
        return self.sessions.last_sign(owner, left) or left

    def _resume(self, shares: dict[str, list[str]], phase: Phase, stops: dict[str, Stop]) -> None:
        """Members that get partitions that were not read: the longest of it is their stop."""
        for member in phase.told:
            share, stop = shares.get(member, []), stops.get(member)
            freed = [self.free_since.pop(partition) for partition in share if partition in self.free_since]
            if freed and stop is not None:
                stop.stopped = min(freed) if stop.stopped is None else min(*freed, stop.stopped)
        if not phase.cooperative and shares and not phase.incomplete():
            self.free_since.clear()  # what no member received is not subscribed to any more

    def _same_instance(self, phase: Phase, owners: dict[str, str]) -> dict[str, str]:
        """Owners of the generation before; a static member that has a new id since then stands under it."""
        by_instance = {self.people[m].instance_id: m for m in phase.members if self.people[m].instance_id}
        return {
            partition: by_instance.get(self.people[owner].instance_id, owner) for partition, owner in owners.items()
        }

    def _owners(self, phase: Phase) -> dict[str, str]:
        return {
            partition: member
            for member, share in sorted(phase.shares().items())
            if member in self.people
            for partition in share
        }

    def _two_owners(self, phase: Phase, shares: dict[str, list[str]]) -> None:
        owners: dict[str, str] = {}
        for member, share in sorted(shares.items()):
            for partition in share:
                other = owners.setdefault(partition, member)
                if other == member:
                    continue
                person = self.people[member]
                topic, _, index = partition.rpartition("-")
                self.out.violation(
                    phase.told[member].ts if member in phase.told else phase.done_ts,
                    "two_owners",
                    f"{partition} was given to {other} and {member} in generation {phase.generation}",
                    generation=phase.generation,
                    member_id=member,
                    client_id=person.client_id,
                    topic=topic,
                    partition=int(index),
                )

    def _restarts(self, phase: Phase, following: Phase | None, owners: dict[str, str], stops: dict[str, Stop]) -> None:
        """Static members that come back under a new id without a rebalance: they take over what the old id had."""
        high = following.done_ts if following else self.end
        for join in self.joins:
            done = join.done
            if done is None or done.event != "join_done" or done.generation != phase.generation:
                continue
            if not phase.done_ts < join.sent.ts <= high or join.member_id in phase.members:
                continue
            old = [m for m in phase.members if self.people[m].instance_id == join.sent.instance_id is not None]
            person = self.people[join.member_id] = Membership(member_id=join.member_id, joined_ts=done.ts)
            person.learn(join.sent)
            phase.members.append(join.member_id)
            told = phase.told.get(join.member_id)
            stop = stops[join.member_id] = Stop(resumed=told.ts if told else None, asked=join.asked)
            if told:
                self.resumed[join.member_id] = told.ts
                self.out.share(phase.generation, person, told.partitions or [], owners, "told")
            for member in old:
                self.people[member].end(join.sent.ts, "replaced")
                stop.stopped = self.sessions.last_sign(member, join.sent.ts) if told else None
                for partition, owner in list(owners.items()):
                    if owner == member:
                        owners[partition] = join.member_id
            said = f"it was {old[0]}" if old else "the id before it was not seen"
            said = f"instance {join.sent.instance_id} came back, {said}; no rebalance"
            self.out.infer(done.ts, "static_restart", person, said, generation=phase.generation)

    # --- ends ---

    def _emptied(self, phase: Phase, following: Phase | None) -> tuple[Trigger, Phase] | None:
        """The generation without members that follows this one, if everybody left before anybody came, and why."""
        if following is not None and following.generation < phase.generation + 2:
            return None
        high = following.done_ts if following else self.end
        departures = list(self._departures(set(phase.members), phase.done_ts, high, None))
        if following is None and self.until is None:
            departures = [trigger for trigger in departures if trigger.kind == LEFT]
        gone = {trigger.member_id for trigger in departures}
        gone |= {member for member in phase.members if self.people[member].left_how == "replaced"}
        if not departures or gone < set(phase.members):
            return None
        last = max(trigger.ts for trigger in departures)
        waiting = following.joins if following else [j for j in self.joins if j.done is None]
        if any(phase.done_ts < join.sent.ts < last for join in waiting):
            return None
        for trigger in departures:
            if trigger.kind == EXPIRED and trigger.member_id:
                person = self.people[trigger.member_id]
                person.end(trigger.ts, "silent")
                self.out.infer(trigger.ts, "member_silent", person, trigger.evidence)
        return min(departures, key=lambda trigger: trigger.rank), Phase(phase.generation + 1, last)

    def _leave_empty(self, phase: Phase, trigger: Trigger, empty: Phase) -> None:
        self.out.rebalance(
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

    def _unfinished(self, before: Phase | None) -> None:
        """A rebalance that has begun when the events end."""
        if before is None:
            return
        triggers = [t for t in self._triggers(before, None) if t.kind in (LEFT, JOINED, RESTART, EXPIRED, UNKNOWN)]
        if not triggers or (not before.members and triggers[0].kind != JOINED):
            return
        self.out.rebalance(
            triggers[0],
            [],
            from_generation=before.generation,
            ended_ts=None,
            members_before=sorted(before.members),
            incomplete=True,
        )

    # --- rules ---

    def _gaps(self) -> None:
        for member, person in self.people.items():
            timeout = person.session_timeout_ms
            if timeout is None:
                continue
            parked = self.sessions.parked[member]
            signs = [ts for ts in self.sessions.signs[member] if person.left_ts is None or ts <= person.left_ts]
            for earlier, later in pairwise(signs):
                if later - earlier <= timeout * MS:
                    continue
                if not any(begin <= earlier and later <= end for begin, end in parked):
                    self.out.violation(
                        later,
                        "heartbeat_gap",
                        f"nothing was heard for {(later - earlier) / MS:.0f} ms; its session timeout is {timeout} ms",
                        since=earlier,
                        member_id=member,
                        client_id=person.client_id,
                    )

    def _commits(self) -> None:
        moments = [phase.done_ts for phase in self.phases]
        for event in self.events:
            person = self.people.get(event.member_id or "")
            if event.offset is None or person is None or event.generation is None:
                continue
            place = bisect_left(moments, event.ts)
            current = self.phases[place - 1] if place else None
            kind = detail = ""
            if person.gone(event.ts) or event.error_code in GONE:
                kind, detail = "commit_fenced", f"it was no member any more ({person.left_how or 'not known'})"
            elif current is not None and event.generation < current.generation:
                kind, detail = "commit_old_generation", f"the group was in generation {current.generation}"
            elif not self.sessions.may_commit(event):
                kind, detail = "commit_not_owner", "the partition was not its own"
            if kind:
                self.out.bad_commit(event, kind, detail)


def _moved(shares: dict[str, list[str]], owners: dict[str, str]) -> int:
    return sum(owners.get(partition, member) != member for member, share in shares.items() for partition in share)
