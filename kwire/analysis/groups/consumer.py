"""Groups whose coordinator assigns (KIP-848, and share and streams groups alike): epochs out of heartbeats.

There is no join phase: each member is told its epoch and its share in answers to its own heartbeats. A rebalance is an
epoch of the group that some member is told for the first time; it ends when the last member has been told that epoch,
or a share of it. The session timeout is the broker's and never on the wire, so that a member expired shows only in that
it falls silent and the others go on.
"""

from __future__ import annotations

from collections.abc import Sequence

from kwire.analysis.events import GroupEvent
from kwire.analysis.groups.consumer_epochs import Epochs
from kwire.analysis.groups.consumer_members import Member, Members
from kwire.analysis.groups.outcome import JOINED, LEFT, RESTART, SUBSCRIPTION, Membership, Outcome


def fold(out: Outcome, events: Sequence[GroupEvent], until: int | None = None) -> None:
    """What happened in one life of such a group. ``events``: all of it, sorted; ``until``: when the next began."""
    _Heartbeats(out, events).fold(events, until)


class _Heartbeats:
    """Events of one life, one after the other: a method for each kind."""

    def __init__(self, out: Outcome, events: Sequence[GroupEvent]) -> None:
        self.out = out
        self.members = Members(out, events)
        self.epochs = Epochs(self.members)
        self.sent: dict[tuple[str | None, int], GroupEvent] = {}

    def fold(self, events: Sequence[GroupEvent], until: int | None) -> None:
        """Write the rows of all events."""
        members, epochs = self.members, self.epochs
        for event in events:
            read_event = getattr(self, f"_{event.event}", None)
            if event.offset is not None:
                members.check_commit(event)
            elif read_event is not None:
                read_event(event)
            if member := members.now.get(event.member_id or ""):
                members.hear(member, event)
        epochs.close()
        epochs.finish()
        if until is not None:
            for member in members.now.values():
                member.who.end(until, "dropped")
        for number, person, stop in epochs.stops:
            self.out.member(number, person, stop, leader=False)

    # --- events ---

    def _join_sent(self, event: GroupEvent) -> None:
        self.sent[event.conn_id, event.number] = event

    def _join_done(self, event: GroupEvent) -> None:
        sent = self.sent.pop((event.conn_id, event.number), event)
        name = event.member_id or ""
        known = self.members.now.get(name)
        old = next((member for member in self.members.now.values() if self._is_same(member, sent)), None)
        member = known or Member(Membership(member_id=name, joined_ts=event.ts))
        member.who.learn(sent)
        kind, evidence = JOINED, "a first heartbeat (epoch 0)" + (" again" if known else "")
        if old is not None:
            kind, evidence = RESTART, f"a first heartbeat of instance {sent.instance_id}"
            evidence += " under a new member id" if old is not member else " again"
        if self.epochs.current is None or (event.generation or 0) > self.epochs.current.number:
            self.members.trigger(sent.ts, kind, member, evidence)
            self.epochs.advance(event)
        elif old is not None:
            self.epochs.current.late.add(name)
        self.members.now[name] = member
        if old is not None:
            self._take_over(old, member, sent, event)
        self.epochs.reach(event, member, sent.ts)

    @staticmethod
    def _is_same(member: Member, sent: GroupEvent) -> bool:
        """Whether who joins is this static member: under another id, or back after it said that it goes away."""
        if not sent.instance_id or member.who.instance_id != sent.instance_id:
            return False
        return member.who.member_id != sent.member_id or member.away is not None

    def _take_over(self, old: Member, member: Member, sent: GroupEvent, event: GroupEvent) -> None:
        """A static member is back and has what it had."""
        assert self.epochs.current is not None
        if old.away is None:
            self.members.free(old, old.heard)
        if old is member:
            member.away = member.who.left_ts = member.who.left_how = None
            member.told, member.holding, member.heard = set(), set(), 0
        else:
            self.members.end(old, sent.ts, "replaced")
            name, before = member.who.member_id, old.who.member_id
            if name in self.epochs.current.late:
                self.epochs.current.replaced[name] = before
            else:
                _rename(self.epochs.current.owners, before, name)
            _rename(self.epochs.owners, before, name)
        quiet = "no rebalance" if member.who.member_id in self.epochs.current.late else "a rebalance followed"
        self.out.infer(
            event.ts,
            "static_restart",
            member.who,
            f"instance {sent.instance_id} came back, it was {old.who.member_id}; {quiet}",
            generation=event.generation,
        )

    def _leave(self, event: GroupEvent) -> None:
        member = self.members.now.get(event.member_id or "")
        if member is None or event.error_code:
            return
        self.members.free(member, event.ts)
        if event.generation == -2:
            member.away = event.ts
            member.who.end(event.ts, "suspended")
            return
        self.members.trigger(event.ts, LEFT, member, "heartbeat with epoch -1")
        self.members.end(member, event.ts, "leave")

    def _subscribed(self, event: GroupEvent) -> None:
        member = self.members.now.get(event.member_id or "")
        if member is None:
            return
        if member.who.subscription not in (None, event.topics):
            said = f"heartbeat with other topics: {', '.join(event.topics or [])}"
            self.members.trigger(event.ts, SUBSCRIPTION, member, said)
        member.who.learn(event)

    def _owned(self, event: GroupEvent) -> None:
        member = self.members.known(event)
        owned = set(event.partitions or [])
        given_up = member.holding - owned - member.told
        if given_up:
            more = {"generation": event.generation, "partitions": sorted(given_up)}
            self.out.infer(event.ts, "revocation_acknowledged", member.who, "it owns them no more", **more)
        member.holding = owned
        for partition in owned:
            self.epochs.owners.setdefault(partition, member.who.member_id)

    def _epoch_change(self, event: GroupEvent) -> None:
        self.epochs.reach(event, self.members.known(event), event.ts)

    def _heartbeat(self, event: GroupEvent) -> None:
        if event.error_code == 0:
            member = self.members.known(event)
            if member.epoch != event.generation:  # the capture began when it was there already
                self.epochs.reach(event, member, event.ts)

    def _assigned(self, event: GroupEvent) -> None:
        member, told = self.members.known(event), set(event.partitions or [])
        lost, gained = member.told - told, told - member.told
        for partition in lost:
            self.members.free_since.setdefault(partition, event.ts)
        for partition in gained:
            self.members.check_owner(event, member, partition)
        unread = [since for partition in gained if (since := self.members.free_since.pop(partition, None)) is not None]
        if gained:
            self.epochs.resume(event, member, min(unread, default=None))
        if lost or gained:
            epoch = self.epochs.current.number if self.epochs.current is not None else event.generation or 0
            self.out.change(event.ts, epoch, member.who, member.told, told, min(unread, default=None))
        member.told = told
        member.holding |= told
        if (lost or gained) and self.epochs.current is not None and event.generation == self.epochs.current.number:
            self.epochs.extend(member, event.ts)

    def _fenced(self, event: GroupEvent) -> None:
        member = self.members.now.get(event.member_id or "")
        if member is not None:
            self.members.free(member, member.heard)
            self.members.end(member, event.ts, "fenced")


def _rename(owners: dict[str, str], old: str, new: str) -> None:
    owners.update({partition: new for partition, owner in owners.items() if owner == old})
