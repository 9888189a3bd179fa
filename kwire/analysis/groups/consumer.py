"""Groups whose coordinator assigns (KIP-848, and share and streams groups alike): epochs out of heartbeats.

There is no join phase: each member is told its epoch and its share in answers to its own heartbeats. A rebalance is an
epoch of the group that some member is told for the first time; it ends when the last member has been told that epoch,
or a share of it. The session timeout is the broker's and never on the wire, so that a member expired shows only in that
it falls silent and the others go on.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from math import inf

from kwire.analysis.columns import MS
from kwire.analysis.events import SHARE, GroupEvent, split_partition
from kwire.analysis.groups.outcome import (
    BY_BROKER,
    EXPIRED,
    JOINED,
    LEFT,
    RESTART,
    SUBSCRIPTION,
    UNKNOWN,
    Membership,
    Outcome,
    Stop,
    Trigger,
)

SILENT = 2  # heartbeat intervals without a sign, after which a member that is never heard of again counts as gone
LATE = 3  # heartbeat intervals between two signs that are a violation
DEFAULT_INTERVAL = 5000  # ms, where no answer told it


@dataclass(slots=True)
class Member:
    """A member now. ``told``: its share; ``holding``: what it may still read, until it says that it does not."""

    who: Membership
    epoch: int = 0
    told: set[str] = field(default_factory=set)
    holding: set[str] = field(default_factory=set)
    heard: int = 0
    interval_ms: int = DEFAULT_INTERVAL
    away: int | None = None  # when a static member said that it will be back


@dataclass(slots=True)
class Epoch:
    """A rebalance under way."""

    number: int
    before: int | None
    first_ts: int
    ended_ts: int
    trigger: Trigger
    members_before: list[str] | None
    owners: dict[str, str]  # of the epoch before
    reached: set[str] = field(default_factory=set)
    stops: dict[str, Stop] = field(default_factory=dict)
    seen_from_start: bool = True
    late: set[str] = field(default_factory=set)  # static members that came back in it: not of the rebalance
    replaced: dict[str, str] = field(default_factory=dict)  # of these, the new member id -> the old

    def keeps_stop(self, name: str) -> bool:
        """Whether the member's stop is over: it is back under its own id, and its stop was that of the rebalance."""
        return name in self.late and name not in self.replaced


def fold(out: Outcome, events: Sequence[GroupEvent], until: int | None = None) -> None:
    """What happened in one life of such a group. ``events``: all of it, sorted; ``until``: when the next began."""
    _Group(out, events, until).fold()


class _Group:
    def __init__(self, out: Outcome, events: Sequence[GroupEvent], until: int | None) -> None:
        self.out = out
        self.events = events
        self.until = until
        self.members: dict[str, Member] = {}
        self.people: list[tuple[int, Membership, Stop]] = []
        self.former: dict[str, Membership] = {}
        self.departed: dict[str, Member] = {}  # since the epoch began
        self.previous: list[str] = []  # members of the epoch before
        self.sent: dict[tuple[str | None, int], GroupEvent] = {}
        self.triggers: list[Trigger] = []
        self.free_since: dict[str, int] = {}
        self.owners: dict[str, str] = {}
        self.current: Epoch | None = None
        self.last_heard = {event.member_id: event.ts for event in events if event.member_id}

    def fold(self) -> None:
        for event in self.events:
            take = getattr(self, f"_{event.event}", None)
            if event.offset is not None:
                self._committed(event)
            elif take is not None:
                take(event)
            if member := self.members.get(event.member_id or ""):
                self._hear(member, event)
        self._close()
        self._finish()
        if self.until is not None:
            for member in self.members.values():
                member.who.end(self.until, "dropped")
        for number, person, stop in self.people:
            self.out.member(number, person, stop, leader=False)

    # --- events ---

    def _join_sent(self, event: GroupEvent) -> None:
        self.sent[event.conn_id, event.number] = event

    def _join_done(self, event: GroupEvent) -> None:
        sent = self.sent.pop((event.conn_id, event.number), event)
        name = event.member_id or ""
        known = self.members.get(name)
        old = next((member for member in self.members.values() if self._is_same(member, sent)), None)
        member = known or Member(Membership(member_id=name, joined_ts=event.ts))
        member.who.learn(sent)
        kind, evidence = JOINED, "a first heartbeat (epoch 0)" + (" again" if known else "")
        if old is not None:
            kind, evidence = RESTART, f"a first heartbeat of instance {sent.instance_id}"
            evidence += " under a new member id" if old is not member else " again"
        if self.current is None or (event.generation or 0) > self.current.number:
            self.triggers.append(self._trigger(sent.ts, kind, member, evidence))
            self._advance(event)
        elif old is not None:
            self.current.late.add(name)
        self.members[name] = member
        if old is not None:
            self._take_over(old, member, sent, event)
        self._reach(event, member, sent.ts)

    @staticmethod
    def _is_same(member: Member, sent: GroupEvent) -> bool:
        """Whether who joins is this static member: under another id, or back after it said that it goes away."""
        if not sent.instance_id or member.who.instance_id != sent.instance_id:
            return False
        return member.who.member_id != sent.member_id or member.away is not None

    def _take_over(self, old: Member, member: Member, sent: GroupEvent, event: GroupEvent) -> None:
        """A static member is back and has what it had."""
        assert self.current is not None
        if old.away is None:
            self._free(old, old.heard)
        if old is member:
            member.away = member.who.left_ts = member.who.left_how = None
            member.told, member.holding, member.heard = set(), set(), 0
        else:
            self._end(old, sent.ts, "replaced")
            name, before = member.who.member_id, old.who.member_id
            if name in self.current.late:
                self.current.replaced[name] = before
            else:
                _rename(self.current.owners, before, name)
            _rename(self.owners, before, name)
        quiet = "no rebalance" if member.who.member_id in self.current.late else "a rebalance followed"
        self.out.infer(
            event.ts,
            "static_restart",
            member.who,
            f"instance {sent.instance_id} came back, it was {old.who.member_id}; {quiet}",
            generation=event.generation,
        )

    def _leave(self, event: GroupEvent) -> None:
        member = self.members.get(event.member_id or "")
        if member is None or event.error_code:
            return
        self._free(member, event.ts)
        if event.generation == -2:
            member.away = event.ts
            member.who.end(event.ts, "suspended")
            return
        self.triggers.append(self._trigger(event.ts, LEFT, member, "heartbeat with epoch -1"))
        self._end(member, event.ts, "leave")

    def _subscribed(self, event: GroupEvent) -> None:
        member = self.members.get(event.member_id or "")
        if member is None:
            return
        if member.who.subscription not in (None, event.topics):
            said = f"heartbeat with other topics: {', '.join(event.topics or [])}"
            self.triggers.append(self._trigger(event.ts, SUBSCRIPTION, member, said))
        member.who.learn(event)

    def _owned(self, event: GroupEvent) -> None:
        member = self._known(event)
        owned = set(event.partitions or [])
        given_up = member.holding - owned - member.told
        if given_up:
            more = {"generation": event.generation, "partitions": sorted(given_up)}
            self.out.infer(event.ts, "revocation_acknowledged", member.who, "it owns them no more", **more)
        member.holding = owned
        for partition in owned:
            self.owners.setdefault(partition, member.who.member_id)

    def _epoch_change(self, event: GroupEvent) -> None:
        self._reach(event, self._known(event), event.ts)

    def _heartbeat(self, event: GroupEvent) -> None:
        if event.error_code == 0:
            member = self._known(event)
            if member.epoch != event.generation:  # the capture began when it was there already
                self._reach(event, member, event.ts)

    def _assigned(self, event: GroupEvent) -> None:
        member, told = self._known(event), set(event.partitions or [])
        lost, gained = member.told - told, told - member.told
        for partition in lost:
            self.free_since.setdefault(partition, event.ts)
        for partition in gained:
            self._check_owner(event, member, partition)
        unread = [since for partition in gained if (since := self.free_since.pop(partition, None)) is not None]
        if gained:
            self._resume(event, member, min(unread, default=None))
        if lost or gained:
            epoch = self.current.number if self.current is not None else event.generation or 0
            self.out.change(event.ts, epoch, member.who, member.told, told, min(unread, default=None))
        member.told = told
        member.holding |= told
        if (lost or gained) and self.current is not None and event.generation == self.current.number:
            self._extend(member, event.ts)

    def _resume(self, event: GroupEvent, member: Member, since: int | None) -> None:
        """A member gets partitions, not read ``since``. Of several stops in one epoch the longest is the member's."""
        if self.current is None or self.current.keeps_stop(member.who.member_id):
            return
        stop = self.current.stops.setdefault(member.who.member_id, Stop())
        longest = 0 if stop.stopped is None or stop.resumed is None else stop.resumed - stop.stopped
        if not longest or (since is not None and event.ts - since > longest):
            stop.stopped, stop.resumed = since, event.ts

    def _fenced(self, event: GroupEvent) -> None:
        member = self.members.get(event.member_id or "")
        if member is not None:
            self._free(member, member.heard)
            self._end(member, event.ts, "fenced")

    # --- epochs ---

    def _reach(self, event: GroupEvent, member: Member, asked: int) -> None:
        """A member is told an epoch."""
        self._advance(event)
        number = event.generation or 0
        member.epoch = number
        assert self.current is not None
        if number == self.current.number:
            name = member.who.member_id
            self.current.reached.add(name)
            self._extend(member, event.ts)
            if self.current.keeps_stop(name):
                return
            stop = self.current.stops.setdefault(name, Stop())
            stop.asked = asked if name in self.current.late else min(asked, self.current.trigger.ts)
            stop.resumed = stop.resumed or event.ts

    def _extend(self, member: Member, ts: int) -> None:
        """The rebalance is not over before this; a static member that is back has nothing to do with it."""
        if self.current is not None and member.who.member_id not in self.current.late:
            self.current.ended_ts = max(self.current.ended_ts, ts)

    def _advance(self, event: GroupEvent) -> None:
        """An epoch that nobody was told before is a rebalance."""
        number = event.generation or 0
        if self.current is None or number > self.current.number:
            self._notice_silent(event.ts)
            self._close()
            self._open(number, event.ts)

    def _open(self, number: int, ts: int) -> None:
        earlier = self.current
        found = sorted(self.triggers, key=lambda trigger: trigger.rank)
        trigger = (
            found[0] if found else Trigger(ts=ts, kind=UNKNOWN, evidence="an epoch was told, and nothing before it")
        )
        self.triggers = []
        known = earlier is not None or number == 1
        self.current = Epoch(
            number,
            earlier.number if earlier else 0 if number == 1 else None,
            ts,
            ts,
            trigger,
            list(self.previous) if earlier else [] if known else None,
            dict(self.owners),
            seen_from_start=known,
        )

    def _close(self) -> None:
        """The rows of the epoch that ends, with everybody who is in it now."""
        epoch = self.current
        if epoch is None:
            return
        replaced = set(epoch.replaced.values())
        departed = {name: member for name, member in self.departed.items() if name in epoch.reached | replaced}
        there = dict(sorted((departed | self.members).items()))
        shares = {name: sorted(member.told) for name, member in there.items()}
        after = [name for name in there if name not in epoch.replaced]
        moved = sum(epoch.owners.get(p, name) != name for name in after for p in shares[name])
        for name, member in there.items():
            before = dict.fromkeys(shares[name], epoch.replaced[name]) if name in epoch.replaced else epoch.owners
            self.out.share(epoch.number, member.who, shares[name], before, "told")
            self.people.append((epoch.number, member.who, epoch.stops.get(name, Stop())))
        self.out.rebalance(
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
            or any(name not in epoch.reached and member.away is None for name, member in self.members.items()),
        )
        present = [name for name in there if name not in replaced]
        self.owners |= {partition: name for name in present for partition in shares[name]}
        self.previous = present
        self.departed = {}

    def _finish(self) -> None:
        """Members that left after the last epoch that anybody was told: each counts one up."""
        gone = [trigger for trigger in self.triggers if trigger.kind == LEFT]
        if not gone or self.current is None:
            return
        empty = not any(member.away is None for member in self.members.values())
        self.out.rebalance(
            min(self.triggers, key=lambda trigger: trigger.rank),
            [],
            from_generation=self.current.number,
            to_generation=self.current.number + len(gone) if empty else None,
            joined_ts=gone[-1].ts if empty else None,
            ended_ts=gone[-1].ts if empty else None,
            members_before=self.previous,
            members_after=[] if empty else None,
            partitions_moved=0 if empty else None,
            incomplete=not empty,
        )

    def _notice_silent(self, ts: int) -> None:
        """Members that are never heard of again, where the group goes on."""
        for name, member in sorted(self.members.items()):
            final = self.last_heard.get(name, 0)
            if final < ts and ts - final > SILENT * member.interval_ms * MS:
                said = f"nothing heard since {(ts - final) / MS:.0f} ms; the session timeout is the broker's"
                if member.away is not None:
                    said = f"a static member that went away did not come back within {(ts - final) / MS:.0f} ms"
                trigger = self._trigger(ts, EXPIRED, member, said)
                self.triggers.append(trigger)
                self.out.infer(ts, "member_silent", member.who, said)
                self._free(member, final)
                self._end(member, ts, "silent")

    # --- members ---

    def _known(self, event: GroupEvent) -> Member:
        """The member, also one that was there before the capture began."""
        name = event.member_id or ""
        if name not in self.members:
            self.members[name] = Member(Membership(member_id=name))
        self.members[name].who.learn(event)
        return self.members[name]

    def _trigger(self, ts: int, kind: str, member: Member, evidence: str) -> Trigger:
        who = member.who
        return Trigger(ts=ts, kind=kind, member_id=who.member_id, client_id=who.client_id, evidence=evidence)

    def _free(self, member: Member, ts: int) -> None:
        for partition in member.told | member.holding:
            self.free_since.setdefault(partition, ts)

    def _end(self, member: Member, ts: int, how: str) -> None:
        member.who.end(ts, how)
        self.former[member.who.member_id] = member.who
        self.departed[member.who.member_id] = member
        self.members.pop(member.who.member_id, None)

    def _hear(self, member: Member, event: GroupEvent) -> None:
        member.interval_ms = event.interval_ms or member.interval_ms
        gap = event.ts - member.heard
        if member.heard and member.away is None and gap > LATE * member.interval_ms * MS:
            self.out.violation(
                event.ts,
                "heartbeat_gap",
                f"nothing was heard for {gap / MS:.0f} ms; the interval is {member.interval_ms} ms",
                since=member.heard,
                generation=member.epoch,
                member_id=member.who.member_id,
                client_id=member.who.client_id,
            )
        member.heard = event.ts

    # --- rules ---

    def _check_owner(self, event: GroupEvent, member: Member, partition: str) -> None:
        if self.out.protocol == SHARE:
            return
        for name, other in self.members.items():
            if other is not member and other.away is None and partition in other.told | other.holding:
                topic, index = split_partition(partition)
                self.out.violation(
                    event.ts,
                    "two_owners",
                    f"{partition} was given to it before {name} said that it gave it up",
                    since=-inf,
                    generation=event.generation,
                    member_id=member.who.member_id,
                    client_id=member.who.client_id,
                    topic=topic,
                    partition=index,
                )

    def _committed(self, event: GroupEvent) -> None:
        member, past = self.members.get(event.member_id or ""), self.former.get(event.member_id or "")
        if member is None and past is None:
            return
        kind = detail = ""
        if member is None and past is not None:
            kind, detail = "commit_fenced", f"it was no member any more ({past.left_how})"
        elif member is not None and event.generation is not None and 0 <= event.generation < member.epoch:
            kind, detail = "commit_old_generation", f"it was in epoch {member.epoch}"
        elif member is not None and not _may_own(event, member.told | member.holding):
            kind, detail = "commit_not_owner", "the partition was not its own"
        if kind:
            self.out.bad_commit(event, kind, detail)


def _may_own(event: GroupEvent, owned: Collection[str]) -> bool:
    """Whether the partition of a commit is among these; a topic known by its id alone may be any that has a name."""
    is_id = (event.topic or "").startswith("id:")
    unknown = any(partition.startswith("id:") != is_id for partition in owned)
    return unknown or f"{event.topic}-{event.partition}" in owned


def _rename(owners: dict[str, str], old: str, new: str) -> None:
    owners.update({partition: new for partition, owner in owners.items() if owner == old})
