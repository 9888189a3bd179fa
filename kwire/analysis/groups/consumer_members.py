"""Members of a group with server-side assignment: assignments, last requests, and protocol violations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import field
from math import inf

from kwire.analysis.columns import MS
from kwire.analysis.events import SHARE, STREAMS, GroupEvent, split_partition
from kwire.analysis.groups.outcome import EXPIRED, Membership, Outcome, Trigger
from kwire.errorcodes import ErrorCode
from kwire.lazy_dataclass import dataclass

SILENT = 2  # heartbeat intervals after which a member without further requests counts as gone
LATE = 3  # heartbeat intervals between two requests that are a violation
REQUESTS = frozenset({"join_sent", "subscribed", "owned"})  # events of a request, whose response is another event
DEFAULT_INTERVAL = 5000  # ms, if no response has it


@dataclass(slots=True)
class Member:
    """A current member of a group with server-side assignment. Times are microseconds since 1970.

    Attributes:
        membership: attributes of the member for the table ``members``.
        epoch: latest epoch that the member received.
        assigned: assigned partitions.
        holding: partitions that the member may still read, until it reports their revocation.
        heard: time of the latest event of the member; 0 before the first event.
        interval_ms: heartbeat interval, in milliseconds.
        is_known: True if all partitions of the member are known. For this, the capture must contain its join, or a
            request with all partitions that it owns.
        away: time at which a static member left temporarily; None for a member that has not left temporarily.
    """

    membership: Membership
    epoch: int = 0
    assigned: set[str] = field(default_factory=set)
    holding: set[str] = field(default_factory=set)
    heard: int = 0
    interval_ms: int = DEFAULT_INTERVAL
    is_known: bool = False
    away: int | None = None


class Members:
    """The members in one life of a group with server-side assignment.

    A life of a group id ends when the group is deleted, expires or loses its state.

    Args:
        events: all events of the life, in order.

    Attributes:
        out: rows of the life, to which rows are added.
        now: current members, by member id.
        former: memberships that ended, by member id.
        departed: members whose membership ended during the current epoch, by member id.
        triggers: possible triggers of the next epoch.
        free_since: for each partition that no member reads, the time since which it has had no reader, in microseconds
            since 1970.
    """

    def __init__(self, out: Outcome, events: Sequence[GroupEvent]) -> None:
        self.out = out
        self.now: dict[str, Member] = {}
        self.former: dict[str, Membership] = {}
        self.departed: dict[str, Member] = {}
        self.triggers: list[Trigger] = []
        self.free_since: dict[str, int] = {}
        self._last_heard = {event.member_id: event.ts for event in events if event.member_id}
        self._evicted = _evictions(events)

    def get_or_add(self, event: GroupEvent) -> Member:
        """Return the member of an event, and store the client and timeouts in the event as attributes of the member.

        If the member is not a current member, because its join was not captured, it is added first.
        """
        name = event.member_id or ""
        if name not in self.now:
            self.now[name] = Member(Membership(member_id=name))
        self.now[name].membership.learn(event)
        return self.now[name]

    def free(self, member: Member, ts: int) -> None:
        for partition in member.assigned | member.holding:
            self.free_since.setdefault(partition, ts)

    def end(self, member: Member, ts: int, how: str) -> None:
        member.membership.end(ts, how)
        self.former[member.membership.member_id] = member.membership
        self.departed[member.membership.member_id] = member
        self.now.pop(member.membership.member_id, None)

    def hear(self, member: Member, event: GroupEvent) -> None:
        member.interval_ms = event.interval_ms or member.interval_ms
        gap = event.ts - member.heard
        is_late = member.heard and member.away is None and gap > LATE * member.interval_ms * MS
        if is_late and self.out.is_silence(member.membership.member_id, member.heard, event.ts):
            self.out.violation(
                event.ts,
                "heartbeat_gap",
                f"no heartbeat for {gap / MS:.0f} ms; the interval is {member.interval_ms} ms",
                since=member.heard,
                generation=member.epoch,
                member_id=member.membership.member_id,
                client_id=member.membership.client_id,
            )
        member.heard = event.ts

    def trigger(self, ts: int, kind: str, member: Member, evidence: str) -> None:
        """Add a possible trigger of the next epoch.

        Args:
            ts: time, in microseconds since 1970.
            kind: kind of the trigger, one of ORDER.
            member: member that caused the trigger.
            evidence: captured facts that show the trigger, as text.
        """
        membership = member.membership
        self.triggers.append(
            Trigger(ts=ts, kind=kind, member_id=membership.member_id, client_id=membership.client_id, evidence=evidence)
        )

    def notice_silent(self, ts: int) -> None:
        """End the membership of members that have expired.

        The session timeout is not in the capture. A member counts as expired if its last event is more than SILENT
        heartbeat intervals before ``ts``, and it has no later event, or UNKNOWN_MEMBER_ID is the next one. The
        partitions of such a member lose their reader. The method also adds an inferred event ``member_silent`` and a
        possible trigger of the next epoch for the member.

        ``ts``: current time, in microseconds since 1970.
        """
        for name, member in sorted(self.now.items()):
            final = next((low for low, high in self._evicted[name] if low < ts <= high), self._last_heard.get(name, 0))
            if final < ts and ts - final > SILENT * member.interval_ms * MS:
                reason = f"no request for {(ts - final) / MS:.0f} ms; the session timeout is the broker's"
                if member.away is not None:
                    reason = f"a static member that left temporarily did not return within {(ts - final) / MS:.0f} ms"
                self.trigger(ts, EXPIRED, member, reason)
                self.out.infer(ts, "member_silent", member.membership, reason)
                self.free(member, final)
                self.end(member, ts, "silent")

    def check_owner(self, event: GroupEvent, member: Member, partition: str) -> None:
        if self.out.protocol == SHARE:
            return
        for name, other in self.now.items():
            if other is not member and other.away is None and partition in other.assigned | other.holding:
                topic, index = split_partition(partition)
                self.out.violation(
                    event.ts,
                    "two_owners",
                    f"{partition} was assigned to it before {name} reported its revocation",
                    since=-inf,
                    generation=event.generation,
                    member_id=member.membership.member_id,
                    client_id=member.membership.client_id,
                    topic=topic,
                    partition=index,
                )

    def check_commit(self, event: GroupEvent) -> None:
        member, past = self.now.get(event.member_id or ""), self.former.get(event.member_id or "")
        if member is None and past is None:
            return
        kind = detail = ""
        if member is None and past is not None:
            kind, detail = "commit_fenced", f"it was no longer a member ({past.left_how})"
        elif member is not None and event.generation is not None and 0 <= event.generation < member.epoch:
            kind, detail = "commit_old_generation", f"it was in epoch {member.epoch}"
        elif self.out.protocol == STREAMS:
            return  # its assignment has tasks, and commits have topics
        elif member is not None and member.is_known and not _may_own(event, member.assigned | member.holding):
            kind, detail = "commit_not_owner", "the partition was not assigned to it"
        if kind:
            self.out.bad_commit(event, kind, detail)


def _evictions(events: Sequence[GroupEvent]) -> dict[str, list[tuple[int, int]]]:
    """Return the periods in which members were evicted, by member id.

    A period begins with the last event before UNKNOWN_MEMBER_ID that shows a member in the group, and ends with this
    error. Times are microseconds since 1970.

    ``events``: all events of the life, in order.
    """
    last: dict[str, int] = {}
    periods: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for event in events:
        name = event.member_id
        if not name or event.event in REQUESTS:
            continue
        if event.error_code != ErrorCode.UNKNOWN_MEMBER_ID:
            last[name] = event.ts
        elif name in last:
            periods[name].append((last.pop(name), event.ts))
    return periods


def _may_own(event: GroupEvent, owned: Collection[str]) -> bool:
    """Return False if the partition of a commit is certainly not in ``owned``.

    The result is also True if this is uncertain, because the commit contains a topic id and ``owned`` contains topic
    names, or the reverse.

    Args:
        event: event of the commit.
        owned: partitions, as ``topic-partition``.
    """
    is_id = (event.topic or "").startswith("id:")
    unknown = any(partition.startswith("id:") != is_id for partition in owned)
    return unknown or f"{event.topic}-{event.partition}" in owned
