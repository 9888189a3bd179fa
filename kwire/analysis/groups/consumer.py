"""The history of groups with server-side assignment (KIP-848, share and Streams groups): epochs from heartbeats.

There is no join phase: each member receives its epoch and its assignment in responses to its own heartbeats. A
rebalance begins when the first member receives a new group epoch. It ends when the last member has received that epoch,
or partitions in it. The session timeout is a broker config that no response contains. Therefore a member counts as
expired if it sends no heartbeat while other members do.
"""

from __future__ import annotations

from collections.abc import Sequence

from kwire.analysis.events import SHARE_RECORDS, GroupEvent
from kwire.analysis.groups.consumer_epochs import Epochs
from kwire.analysis.groups.consumer_members import Member, Members
from kwire.analysis.groups.outcome import JOINED, LEFT, RESTART, SUBSCRIPTION, Membership, Outcome


def fold(out: Outcome, events: Sequence[GroupEvent], until: int | None = None) -> None:
    """Add the rows of one life of a group with server-side assignment to ``out``.

    A life of a group id ends when the group is deleted, expires or loses its state.

    Args:
        out: rows of the life.
        events: all events of the life, sorted.
        until: start of the next life, in microseconds since 1970; None for the last life.
    """
    _Heartbeats(out, events).fold(events, until)


class _Heartbeats:
    """A converter of one life of a group with server-side assignment to rows, with one method for each kind of event.

    A life of a group id ends when the group is deleted, expires or loses its state.

    Args:
        out: rows of the life, to which rows are added.
        events: all events of the life, in order.
    """

    def __init__(self, out: Outcome, events: Sequence[GroupEvent]) -> None:
        self.out = out
        self.members = Members(out, events)
        self.epochs = Epochs(self.members)
        self.sent: dict[tuple[str | None, int], GroupEvent] = {}

    def fold(self, events: Sequence[GroupEvent], until: int | None) -> None:
        """Process all events of the life in order, and add the resulting rows to the ``Outcome``.

        Args:
            events: all events of the life, sorted.
            until: start of the next life, in microseconds since 1970; None for the last life.
        """
        members, epochs = self.members, self.epochs
        for event in events:
            if event.event in SHARE_RECORDS:
                continue  # neither a heartbeat nor an assignment
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
                member.membership.end(until, "dropped")
        for number, membership, stop in epochs.stops:
            self.out.member(number, membership, stop, leader=False)

    # --- events ---

    def _join_sent(self, event: GroupEvent) -> None:
        self.sent[event.conn_id, event.number] = event

    def _join_done(self, event: GroupEvent) -> None:
        sent = self.sent.pop((event.conn_id, event.number), event)
        name = event.member_id or ""
        known = self.members.now.get(name)
        old = next((member for member in self.members.now.values() if self._is_same(member, sent)), None)
        member = known or Member(Membership(member_id=name, joined_ts=event.ts))
        member.is_known = True
        member.membership.learn(sent)
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
            self._record_static_restart(old, member, sent, event)
        self.epochs.reach(event, member, sent.ts)

    @staticmethod
    def _is_same(member: Member, sent: GroupEvent) -> bool:
        """Return whether a join is the return of a static member after a restart.

        The join must have the same instance id as the member. It must also have a different member id, or the member
        must have left temporarily before the join.

        Args:
            member: member before the join.
            sent: first heartbeat of the join.
        """
        if not sent.instance_id or member.membership.instance_id != sent.instance_id:
            return False
        return member.membership.member_id != sent.member_id or member.away is not None

    def _record_static_restart(self, old: Member, member: Member, sent: GroupEvent, event: GroupEvent) -> None:
        """Record that a static member restarted: move its partitions to the new member id.

        The method also ends the membership of the old member id, and adds an inferred event ``static_restart``.

        Args:
            old: static member before the restart.
            member: static member after the restart; the same object if the member id is the same.
            sent: first heartbeat after the restart.
            event: response to the first heartbeat.
        """
        assert self.epochs.current is not None
        if old.away is None:
            self.members.free(old, old.heard)
        if old is member:
            member.away = member.membership.left_ts = member.membership.left_how = None
            member.assigned, member.holding, member.heard = set(), set(), 0
        else:
            self.members.end(old, sent.ts, "replaced")
            name, before = member.membership.member_id, old.membership.member_id
            if name in self.epochs.current.late:
                self.epochs.current.replaced[name] = before
            else:
                _rename(self.epochs.current.owners, before, name)
            _rename(self.epochs.owners, before, name)
        quiet = "no rebalance" if member.membership.member_id in self.epochs.current.late else "a rebalance followed"
        self.out.infer(
            event.ts,
            "static_restart",
            member.membership,
            f"instance {sent.instance_id} came back, it was {old.membership.member_id}; {quiet}",
            generation=event.generation,
        )

    def _leave(self, event: GroupEvent) -> None:
        member = self.members.now.get(event.member_id or "")
        if member is None or event.error_code:
            return
        self.members.free(member, event.ts)
        if event.generation == -2:
            member.away = event.ts
            member.membership.end(event.ts, "suspended")
            return
        self.members.trigger(event.ts, LEFT, member, "heartbeat with epoch -1")
        self.members.end(member, event.ts, "leave")

    def _subscribed(self, event: GroupEvent) -> None:
        member = self.members.now.get(event.member_id or "")
        if member is None:
            return
        if member.membership.subscription not in (None, event.topics):
            evidence = f"heartbeat with other topics: {', '.join(event.topics or [])}"
            self.members.trigger(event.ts, SUBSCRIPTION, member, evidence)
        member.membership.learn(event)

    def _owned(self, event: GroupEvent) -> None:
        member = self.members.get_or_add(event)
        owned = set(event.partitions or [])
        revoked = member.holding - owned - member.assigned
        if revoked:
            more = {"generation": event.generation, "partitions": sorted(revoked)}
            self.out.infer(event.ts, "revocation_acknowledged", member.membership, "it no longer owns them", **more)
        member.holding = owned
        member.is_known = True
        for partition in owned:
            self.epochs.owners.setdefault(partition, member.membership.member_id)

    def _epoch_change(self, event: GroupEvent) -> None:
        self.epochs.reach(event, self.members.get_or_add(event), event.ts)

    def _heartbeat(self, event: GroupEvent) -> None:
        if event.error_code == 0:
            member = self.members.get_or_add(event)
            if member.epoch != event.generation:  # the member joined before the capture began
                self.epochs.reach(event, member, event.ts)

    def _assigned(self, event: GroupEvent) -> None:
        member, partitions = self.members.get_or_add(event), set(event.partitions or [])
        lost, gained = member.assigned - partitions, partitions - member.assigned
        for partition in lost:
            self.members.free_since.setdefault(partition, event.ts)
        for partition in gained:
            self.members.check_owner(event, member, partition)
        unread = [since for partition in gained if (since := self.members.free_since.pop(partition, None)) is not None]
        if gained:
            self.epochs.resume(event, member, min(unread, default=None))
        if lost or gained:
            epoch = self.epochs.current.number if self.epochs.current is not None else event.generation or 0
            self.out.change(event.ts, epoch, member.membership, member.assigned, partitions, min(unread, default=None))
        member.assigned = partitions
        member.holding |= partitions
        # An assignment that only loses partitions asks the member to revoke them before it receives the next epoch.
        if gained and self.epochs.current is not None and event.generation == self.epochs.current.number:
            self.epochs.extend(member, event.ts)

    def _fenced(self, event: GroupEvent) -> None:
        member = self.members.now.get(event.member_id or "")
        if member is not None:
            self.members.free(member, member.heard)
            self.members.end(member, event.ts, "fenced")


def _rename(owners: dict[str, str], old: str, new: str) -> None:
    owners.update({partition: new for partition, owner in owners.items() if owner == old})
