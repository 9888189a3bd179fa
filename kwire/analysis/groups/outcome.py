"""The rows of a group's history, and the triggers of its rebalances; common to all group protocols."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from math import inf
from typing import Any

from kwire.analysis import tables
from kwire.analysis.columns import MS, Row
from kwire.analysis.events import CLASSIC, GroupEvent, split_partition
from kwire.analysis.groups.thinning import Pauses, is_pause
from kwire.analysis.unread import Blanks
from kwire.lazy_dataclass import dataclass

# Triggers, in order of precedence if two happened at the same time.
LEFT, JOINED, RESTART, SUBSCRIPTION, REVOCATION = "left", "joined", "restart", "subscription", "revocation"
METADATA, EXPIRED, UNSYNCED, MOVED, UNKNOWN = "metadata", "expired", "sync timeout", "coordinator moved", "unknown"
ORDER = (LEFT, JOINED, RESTART, SUBSCRIPTION, REVOCATION, METADATA, EXPIRED, UNSYNCED, MOVED, UNKNOWN)
INFERRED = {EXPIRED, UNSYNCED, UNKNOWN}

EAGER, COOPERATIVE, BY_BROKER = "eager", "cooperative", "consumer"  # kinds of stop-the-world

UNCERTAIN = "; not certain, because calls of the group were not decoded (see problems)"


@dataclass(slots=True, kw_only=True)
class Trigger:
    """A possible trigger of a rebalance.

    Attributes:
        ts: time, in microseconds since 1970.
        kind: kind of the trigger, one of ORDER.
        member_id: member that caused the rebalance; None if unknown.
        client_id: client id of the member that caused the rebalance; None if unknown.
        evidence: captured facts that show the trigger, as text.
    """

    ts: int
    kind: str
    member_id: str | None = None
    client_id: str | None = None
    evidence: str = ""

    @property
    def rank(self) -> tuple[int, int]:
        """The sort key of a trigger: time, then kind. The possible trigger with the lowest rank is reported."""
        return self.ts, ORDER.index(self.kind)


@dataclass(slots=True, kw_only=True)
class Membership:
    """The attributes of a member from its first join response until it left, expired or was fenced.

    Times are microseconds since 1970. None means unknown, except in ``left_ts`` and ``left_how``.

    Attributes:
        member_id: member id.
        joined_ts: time of the first join response; None if the member joined before the capture began.
        instance_id: group instance id of a static member.
        client_id: client id.
        host: address of the client.
        session_timeout_ms: session timeout in milliseconds.
        rebalance_timeout_ms: rebalance timeout in milliseconds.
        subscription: subscribed topics.
        left_ts: end of the membership; None for a current member.
        left_how: reason for the end, such as "leave" or "silent"; None for a current member.
    """

    member_id: str
    joined_ts: int | None = None
    instance_id: str | None = None
    client_id: str | None = None
    host: str | None = None
    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None
    subscription: list[str] | None = None
    left_ts: int | None = None
    left_how: str | None = None

    def learn(self, event: GroupEvent) -> None:
        """Store the client, the timeouts and the subscription in an event of the member.

        A value that is None in the event does not replace a known value.
        """
        self.instance_id = event.instance_id or self.instance_id
        self.client_id = event.client_id or self.client_id
        self.host = event.host or self.host
        if event.session_timeout_ms is not None:
            self.session_timeout_ms = event.session_timeout_ms
        if event.rebalance_timeout_ms is not None:
            self.rebalance_timeout_ms = event.rebalance_timeout_ms
        if event.topics is not None:
            self.subscription = event.topics

    def end(self, ts: int, how: str) -> None:
        """End the membership. The call has no effect if the membership has already ended.

        Args:
            ts: time, in microseconds since 1970.
            how: reason, such as "leave" or "silent" (the session expired).
        """
        if self.left_ts is None:
            self.left_ts, self.left_how = ts, how

    def gone(self, ts: int) -> bool:
        """Return whether the membership ended before the time ``ts``, in microseconds since 1970."""
        return self.left_ts is not None and self.left_ts < ts


@dataclass(slots=True)
class Stop:
    """The two periods of a member in a rebalance: it waited for its assignment, and it did not read.

    Both periods end with the assignment. Times are microseconds since 1970.

    Attributes:
        resumed: time of the assignment; None if the member received none.
        asked: start of the wait for the assignment; None if unknown.
        stopped: start of the period without reading; None if the member did not stop reading.
    """

    resumed: int | None = None
    asked: int | None = None
    stopped: int | None = None

    def row(self) -> dict[str, Any]:
        """Return the begin, end and durations of the stop as columns of ``members``, by column name."""
        return {
            "stopped_ts": self.stopped,
            "resumed_ts": self.resumed,
            "join_ms": _millis(self.asked, self.resumed),
            "stw_ms": _millis(self.stopped, self.resumed),
        }


def _millis(begin: int | None, end: int | None) -> float | None:
    return None if begin is None or end is None else (end - begin) / MS


@dataclass(slots=True)
class Outcome:
    """The rows of one life of a group under one protocol.

    Attributes:
        capture_id: id of the capture.
        group_id: group id.
        protocol: ``classic``, ``consumer``, ``share`` or ``streams``; None if unknown.
        cluster: cluster of the group; None if unknown.
        life: number of the life, from 1. A life ends when the group is deleted, expires or loses its state.
        blanks: periods in which calls of the group may be missing.
        pauses: periods from which routine events of members were removed.
        events: inferred events.
        rebalances: rows of ``rebalances``.
        members: rows of ``members``.
        assignments: rows of ``assignments``.
        changes: rows of ``assignment_changes``.
        violations: rows of ``violations``, each a tuple with the values of all columns.
    """

    capture_id: str
    group_id: str
    protocol: str | None
    cluster: str | None = None
    life: int = 1
    blanks: Blanks = field(default_factory=Blanks)
    pauses: Pauses = field(default_factory=dict)
    events: list[GroupEvent] = field(default_factory=list)
    rebalances: list[Row] = field(default_factory=list)
    members: list[Row] = field(default_factory=list)
    assignments: list[Row] = field(default_factory=list)
    changes: list[Row] = field(default_factory=list)
    violations: list[tuple[Any, ...]] = field(default_factory=list)

    def is_silence(self, member: str, begin: int, end: int) -> bool:
        """Return whether a member sent nothing between two of its events, as far as the events show.

        Args:
            member: member id.
            begin: time of the earlier event, in microseconds since 1970.
            end: time of the later event, in microseconds since 1970.
        """
        return not is_pause(self.pauses, member, begin, end)

    def infer(self, ts: int, event: str, member: Membership, reason: str, **more: Any) -> None:
        """Add an inferred event: no frame contains this event, but captured events show that it happened.

        Args:
            ts: time, in microseconds since 1970.
            event: kind of the event.
            member: the member.
            reason: captured facts that show the event, as text.
            more: values of other columns of ``group_events``.
        """
        self.events.append(
            GroupEvent(
                ts=ts,
                group_id=self.group_id,
                protocol=self.protocol,
                event=event,
                inferred=True,
                member_id=member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                host=member.host,
                reason=reason,
                **more,
            )
        )

    def rebalance(self, trigger: Trigger, stops: Iterable[Stop], **values: Any) -> None:
        """Add a row of ``rebalances``.

        Args:
            trigger: trigger of the rebalance.
            stops: stops of the members, from which the stop-the-world times are computed.
            values: values of the columns that do not depend on the trigger or the stops; ``ended_ts`` is required.
        """
        waits = [wait for stop in stops if (wait := stop.row()["stw_ms"]) is not None]
        self.rebalances.append(
            tables.REBALANCES.row(
                **self._base(),
                started_ts=trigger.ts,
                duration_ms=_millis(trigger.ts, values["ended_ts"]),
                trigger=trigger.kind,
                trigger_member=trigger.member_id,
                trigger_client=trigger.client_id,
                trigger_evidence=trigger.evidence,
                trigger_confidence="inferred" if trigger.kind in INFERRED else "observed",
                stw_ms_max=max(waits, default=None),
                stw_ms_avg=sum(waits) / len(waits) if waits else None,
                **values,
            )
        )

    def mark_incomplete(self, until: int | None) -> None:
        """Set ``incomplete`` in rows that may be wrong because calls of the group were not decoded.

        A row may be wrong if calls may be missing in a period that depends on the table:

        - ``rebalances``: from the end of the rebalance before the previous rebalance to the end of the rebalance
          itself. For the first two rebalances, the period has no beginning. For the last one, it ends with the life of
          the group.
        - ``members``: from the beginning of the period of the member's first rebalance to the end of the first
          rebalance after the member left, or to the end of the life.
        - ``assignment_changes``: up to the change, from the member's previous change or from the beginning of the
          period of the rebalance with this generation, whichever is earlier. For the member's first change, the period
          has no beginning.

        ``until``: end of the life, in microseconds since 1970; None for the last life.
        """
        end = inf if until is None else until
        rows = sorted(self.rebalances, key=lambda row: (row["started_ts"], row["to_generation"] or inf))
        ends = [max(row[name] or row["started_ts"] for name in ("started_ts", "joined_ts", "ended_ts")) for row in rows]
        if self.protocol != CLASSIC:  # a member may receive its assignment until the next rebalance begins
            ends = [max(one, row["started_ts"]) for one, row in zip(ends, [*rows[1:], *rows[-1:]], strict=True)]
        since: dict[int | None, float] = {}
        for row, low, high in zip(rows, [-inf, -inf, *ends], [*ends[:-1], end], strict=False):
            row["incomplete"] |= self.blanks.between(low, high)
            since.setdefault(row["to_generation"], low)
        first_seen: dict[str, float] = {}
        for row in sorted(self.members, key=lambda row: row["generation"]):
            low = first_seen.setdefault(row["member_id"], since.get(row["generation"], -inf))
            left_ts = row["left_ts"]
            gone = end if left_ts is None else next((one for one in ends if one >= left_ts), end)
            row["incomplete"] = self.blanks.between(low, gone)
        last_change: dict[str, float] = {}
        for row in sorted(self.changes, key=lambda row: row["ts"]):
            low = min(last_change.get(row["member_id"], -inf), since.get(row["generation"], -inf))
            row["incomplete"] = self.blanks.between(low, row["ts"])
            last_change[row["member_id"]] = row["ts"]

    def member(self, generation: int, member: Membership, stop: Stop, *, leader: bool) -> None:
        """Add a row of ``members``.

        Args:
            generation: generation id, or group epoch.
            member: the member.
            stop: time in which the member waited for its assignment and did not read, in the rebalance.
            leader: True if the member is the leader.
        """
        self.members.append(
            tables.MEMBERS.row(
                **self._base(),
                generation=generation,
                member_id=member.member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                host=member.host,
                joined_ts=member.joined_ts,
                left_ts=member.left_ts,
                left_how=member.left_how,
                session_timeout_ms=member.session_timeout_ms,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                subscription=member.subscription,
                leader=leader,
                **stop.row(),
            )
        )

    def share(
        self, generation: int, member: Membership, partitions: Iterable[str], before: dict[str, str], source: str
    ) -> None:
        """Add a row of ``assignments`` for each partition.

        Args:
            generation: generation id, or group epoch.
            member: the member.
            partitions: partitions of the member, as ``topic-partition``.
            before: previous owner of each partition, by partition.
            source: message with the assignment: ``told`` (response to the member) or ``planned`` (the leader's
                SyncGroup request).
        """
        for name in partitions:
            topic, partition = split_partition(name)
            self.assignments.append(
                tables.ASSIGNMENTS.row(
                    **self._base(),
                    generation=generation,
                    member_id=member.member_id,
                    client_id=member.client_id,
                    topic=topic,
                    partition=partition,
                    from_prev_owner=before.get(name),
                    source=source,
                )
            )

    def change(
        self, ts: int, epoch: int, member: Membership, before: set[str], after: set[str], unread_since: int | None
    ) -> None:
        """Add a row of ``assignment_changes``: a response that changed the assignment of one member (server-side
        assignment only).

        Args:
            ts: time, in microseconds since 1970.
            epoch: group epoch.
            member: the member.
            before: partitions assigned before.
            after: partitions assigned now.
            unread_since: earliest time since which a new partition had no reader, in microseconds since 1970; None if
                all new partitions had a reader.
        """
        self.changes.append(
            tables.ASSIGNMENT_CHANGES.row(
                **self._base(),
                ts=ts,
                generation=epoch,
                member_id=member.member_id,
                client_id=member.client_id,
                partitions=sorted(after),
                gained=sorted(after - before),
                lost=sorted(before - after),
                unread_ms=_millis(unread_since, ts),
            )
        )

    def violation(
        self,
        ts: int,
        kind: str,
        detail: str,
        *,
        since: float | None = None,
        generation: int | None = None,
        member_id: str | None = None,
        client_id: str | None = None,
        topic: str | None = None,
        partition: int | None = None,
    ) -> None:
        """Add a row of ``violations``.

        Args:
            ts: time of the violation, in microseconds since 1970.
            kind: kind of the violation.
            detail: description, as text.
            since: start of the evidence, in microseconds since 1970. If calls may be missing between this time and
                ``ts``, the violation is marked as uncertain. None to leave the violation unmarked.
            generation: generation id, or group epoch; None if unknown.
            member_id: member id; None if the violation is about no single member.
            client_id: client id of the member; None if unknown.
            topic: topic name; None if the violation is about no single topic.
            partition: partition number; None if the violation is about no single partition.
        """
        if since is not None and self.blanks.between(since, ts):
            detail += UNCERTAIN
        self.violations.append(
            (
                self.capture_id,
                ts,
                self.group_id,
                self.cluster,
                self.life,
                self.protocol,
                kind,
                generation,
                member_id,
                client_id,
                topic,
                partition,
                detail,
            )
        )

    def event_violation(self, event: GroupEvent, kind: str, detail: str, *, since: float | None = None) -> None:
        """Add a row of ``violations`` with the time, generation, member and partition of an event.

        Args:
            event: the event.
            kind: kind of the violation.
            detail: description, as text.
            since: start of the evidence, as in ``violation``.
        """
        self.violation(
            event.ts,
            kind,
            detail,
            since=since,
            generation=event.generation,
            member_id=event.member_id,
            client_id=event.client_id,
            topic=event.topic,
            partition=event.partition,
        )

    def bad_commit(self, event: GroupEvent, kind: str, why: str) -> None:
        """Add a violation for an invalid offset commit.

        Args:
            event: event of the commit.
            kind: kind of the violation.
            why: reason, as text.
        """
        detail = f"offset {event.offset}: {why}; response: {event.error_name or 'none'}"
        self.event_violation(event, kind, detail, since=-inf)

    def _base(self) -> dict[str, Any]:
        return {
            "capture_id": self.capture_id,
            "group_id": self.group_id,
            "cluster": self.cluster,
            "life": self.life,
            "protocol": self.protocol,
        }
