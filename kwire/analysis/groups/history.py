"""The history of one group id: its groups in each cluster, and the lives of each group.

A life ends when the group is deleted, expires or loses its state; a later group with the same id is the next life. The
history of a group id does not depend on events of different group ids, so several processes can compute histories in
parallel.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import compress, pairwise, repeat
from typing import Any

from kwire.analysis import tables
from kwire.analysis.clusters import Clusters
from kwire.analysis.columns import MS, Row, TupleRows
from kwire.analysis.events import CLASSIC, SHARE_RECORDS, EventRows, GroupEvent, by_key, error_name, in_order, merged
from kwire.analysis.groups import classic, consumer
from kwire.analysis.groups.lives import Life, lives
from kwire.analysis.groups.outcome import Outcome
from kwire.analysis.groups.thinning import Pauses
from kwire.analysis.topics import Watermark
from kwire.analysis.transactions import ABORTED, COMMITTED, REFUSED, Transactions
from kwire.analysis.unread import Blanks, Unread, in_cluster, of_group

# Names of the tables with the history of groups.
FILLED = (
    "group_events",
    "rebalances",
    "members",
    "assignments",
    "assignment_changes",
    "offset_commits",
    "share_records",
    "violations",
)
AS_TUPLES = frozenset({"offset_commits", "violations"})
"""Tables whose rows are tuples until they are read, because a group can have many of them."""


class Ends:
    """The end offsets of partitions over time, from captured responses.

    Args:
        watermarks: high watermarks in responses, in any order.
        names: topic names; a key is the text ``id:`` followed by the topic id.
        clusters: clusters of the brokers.
    """

    def __init__(
        self, watermarks: Iterable[Watermark], names: Mapping[str, str] | None = None, clusters: Clusters | None = None
    ) -> None:
        topics, where = names or {}, clusters or Clusters()
        self._of: dict[tuple[str | None, str, int], list[tuple[int, int]]] = defaultdict(list)
        for mark in watermarks:
            cluster = where.id_of(mark.conn_id, mark.broker, mark.ts)
            self._of[cluster, topics.get(mark.topic, mark.topic), mark.partition].append((mark.ts, mark.offset))
        for marks in self._of.values():
            marks.sort()

    def all(self, cluster: str | None, topic: str, partition: int) -> list[tuple[int, int]]:
        """Return all captured end offsets of a partition, in order of time.

        Each element is the time of the response, in microseconds since 1970, and the end offset. Responses of a broker
        whose cluster is unknown count for every cluster.

        Args:
            cluster: cluster of the partition; None if unknown.
            topic: topic name.
            partition: partition number.
        """
        return sorted(mark for where in {cluster, None} for mark in self._of.get((where, topic, partition), ()))

    def before(self, cluster: str | None, topic: str, partition: int, ts: int) -> tuple[int, int] | None:
        """Return the last end offset of a partition that was captured up to a time.

        Responses of a broker whose cluster is unknown count for every cluster.

        Args:
            cluster: cluster of the partition; None if unknown.
            topic: topic name.
            partition: partition number.
            ts: time, in microseconds since 1970.

        Returns: the time of the response, in microseconds since 1970, and the end offset; None if no end offset was
        captured.
        """
        if not self._of:
            return None
        latest = None
        for where in (cluster,) if cluster is None else (cluster, None):
            marks = self._of.get((where, topic, partition))
            if marks and (place := bisect_right(marks, (ts, 2**63))):
                mark = marks[place - 1]
                latest = mark if latest is None else max(latest, mark)
        return latest


def fold(
    capture_id: str,
    group_id: str,
    events: Iterable[GroupEvent],
    ends: Ends,
    clusters: Clusters | None = None,
    transactions: Transactions | None = None,
    unread: Iterable[Unread] = (),
    pauses: Pauses | None = None,
) -> dict[str, Sequence[Row]]:
    """Return the rows of all groups with one group id, by table name. Each cluster may have a group with this id.

    Args:
        capture_id: id of the capture.
        group_id: the group id.
        events: all events of these groups, in any order, with topic names.
        ends: end offsets of partitions.
        clusters: clusters of the brokers; None if unknown.
        transactions: ends of transactions; None if unknown.
        unread: periods in which calls may be missing, of all groups in the capture.
        pauses: periods from which routine events of members were removed; None if all events are given.
    """
    missing = of_group(unread, group_id)
    ordered = by_key(events)
    rows_by_table: dict[str, list[Any]] = {name: [] for name in FILLED if name != "group_events"}
    every = EventRows(capture_id)
    for cluster, own in by_cluster(ordered, clusters or Clusters()):
        if moves := _coordinator_moves(own):
            own = by_key([*own, *moves])
        blanks = in_cluster(missing, cluster, clusters or Clusters())
        parts: list[tuple[Sequence[GroupEvent], int]] = []
        for life in lives(own):
            more = ends, transactions or Transactions(), blanks, pauses or {}
            outcomes, rows_of_life = _rows(capture_id, group_id, cluster, life, *more)
            inferred = [event for out in outcomes for event in out.events]
            parts.append((merged(life.events, inferred), life.number))
            for name, rows in rows_of_life:
                rows_by_table[name] += rows
        every.parts += [(events, cluster, number) for events, number in in_order([one for one in parts if one[0]])]
    made: dict[str, Sequence[Row]] = {"group_events": every}
    for name, rows in rows_by_table.items():
        table = tables.TABLES[name]
        made[name] = TupleRows(table, rows) if name in AS_TUPLES else table.sorted(rows)
    return {name: made[name] for name in FILLED}


def by_cluster(events: Sequence[GroupEvent], clusters: Clusters) -> list[tuple[str | None, list[GroupEvent]]]:
    """Divide the events of one group id by cluster, because groups of several clusters may have the same id.

    Events of brokers whose cluster is unknown are added to a cluster in which the same member has events. Without a
    match, they are added to the cluster in which the same client uses the group, if there is only one. Remaining
    events are returned separately; the address of a broker is the name of their cluster.

    Args:
        events: sorted events.
        clusters: clusters of the brokers.

    Returns: pairs of the cluster and its events; the cluster is None if the broker is unknown, too.
    """
    by_cluster_id: dict[str | None, list[GroupEvent]] = defaultdict(list)
    named: set[str | None] = set()
    connections: dict[tuple[str | None, str | None], list[GroupEvent]] = {}
    for event in events:
        where = event.conn_id, event.broker
        own = connections.get(where)
        if own is None or event.conn_id is None:
            known = clusters.id_of(*where, event.ts)
            named |= {known} - {None}
            own = connections[where] = by_cluster_id[known or clusters.of(*where, event.ts)]
        own.append(event)
    if len(by_cluster_id) > 1:
        for cluster in sorted(by_cluster_id.keys() - named, key=lambda one: one or "", reverse=True):
            if (other := _same(cluster, by_cluster_id, named)) is not None:
                by_cluster_id[other] = by_key([*by_cluster_id[other], *by_cluster_id.pop(cluster)])
    return sorted(by_cluster_id.items(), key=lambda item: item[0] or "")


def _same(
    cluster: str | None, by_cluster_id: Mapping[str | None, list[GroupEvent]], named: Collection[str | None]
) -> str | None:
    members = {event.member_id for event in by_cluster_id[cluster] if event.member_id}
    clients = {(event.client_id, event.host) for event in by_cluster_id[cluster]}
    for other in sorted(by_cluster_id.keys() - {cluster, None}, key=lambda one: (one not in named, one or "")):
        if any(event.member_id in members for event in by_cluster_id[other]):
            return other
    there = [
        other
        for other in named
        if other in by_cluster_id and any((e.client_id, e.host) in clients for e in by_cluster_id[other])
    ]
    return there[0] if len(there) == 1 else None


def _rows(
    capture_id: str,
    group_id: str,
    cluster: str | None,
    life: Life,
    ends: Ends,
    transactions: Transactions,
    blanks: Blanks,
    pauses: Pauses,
) -> tuple[Collection[Outcome], list[tuple[str, list[Any]]]]:
    """Return the histories of one life of a group, one for each protocol, and its rows as pairs of table name and rows.

    Rows of ``group_events`` are not included. The rows of the tables AS_TUPLES are tuples with the values of all
    columns.

    Args:
        capture_id: id of the capture.
        group_id: group id.
        cluster: cluster of the group; None if unknown.
        life: life of the group, which ends when the group is deleted, expires or loses its state.
        ends: end offsets of partitions.
        transactions: ends of transactions.
        blanks: periods in which calls of the group may be missing.
        pauses: periods from which routine events of members were removed.
    """
    protocols: list[str | None] = [*sorted({event.protocol for event in life.events if event.protocol})] or [None]
    outcomes = {name: Outcome(capture_id, group_id, name, cluster, life.number, blanks, pauses) for name in protocols}
    for protocol, out in outcomes.items():
        # A group that changed its protocol has two histories.
        own = [event for event in life.events if event.protocol in (protocol, None)]
        if protocol == CLASSIC:
            classic.fold(out, own, life.until)
        elif protocol is not None:
            consumer.fold(out, own, life.until)
        out.mark_incomplete(life.until)
    first = outcomes[protocols[0]]
    commits = [
        event
        for event in life.events
        if event.offset is not None and event.topic is not None and event.partition is not None
    ]
    last = life.events[-1].ts if life.events else 0
    decided = [transactions.outcome(event, cluster, last) for event in commits]
    _report_decreases(first, life, compress(commits, (outcome == COMMITTED for outcome, _ in decided)))
    rows: list[tuple[str, list[Any]]] = [
        ("offset_commits", list(map(_commit_values, repeat(first), commits, decided, repeat(ends)))),
        ("share_records", [_share_record(first, event) for event in life.events if event.event in SHARE_RECORDS]),
    ]
    for out in outcomes.values():
        rows += [
            ("rebalances", out.rebalances),
            ("members", out.members),
            ("assignments", out.assignments),
            ("assignment_changes", out.changes),
            ("violations", out.violations),
        ]
    return outcomes.values(), rows


def _commit_values(out: Outcome, event: GroupEvent, decided: tuple[str, int | None], ends: Ends) -> tuple[Any, ...]:
    """Return the values of the columns of ``offset_commits`` for an event of an offset commit, in the order of the
    columns.

    Args:
        out: object with the capture id, the cluster and the number of the life, which the row contains.
        event: the event.
        decided: outcome of the commit, and the time at which its transaction ended, from ``Transactions.outcome``.
        ends: end offsets of partitions.
    """
    outcome, outcome_ts = decided
    topic, partition, offset, ts, code = event.topic, event.partition, event.offset, event.ts, event.error_code
    assert topic is not None
    assert partition is not None
    assert offset is not None
    end = None if outcome in (REFUSED, ABORTED) else ends.before(out.cluster, topic, partition, ts)
    return (
        out.capture_id,
        ts,
        event.group_id,
        out.cluster,
        out.life,
        event.generation,
        event.member_id,
        event.client_id,
        topic,
        partition,
        offset,
        event.metadata,
        event.event.startswith("txn_"),
        code,
        error_name(code),
        outcome,
        outcome_ts,
        event.transactional_id,
        event.producer_id,
        event.producer_epoch,
        None if end is None else end[1] - offset,
        None if end is None else (ts - end[0]) / MS,
    )


def _share_record(out: Outcome, event: GroupEvent) -> Row:
    """Return the row of ``share_records`` for an event about acquired or acknowledged records.

    Args:
        out: object with the capture id, the cluster and the number of the life, which the row contains.
        event: the event.
    """
    return tables.SHARE_RECORDS.row(
        capture_id=out.capture_id,
        ts=event.ts,
        group_id=event.group_id,
        cluster=out.cluster,
        life=out.life,
        member_id=event.member_id,
        client_id=event.client_id,
        topic=event.topic,
        partition=event.partition,
        kind=event.event,
        first_offset=event.first_offset,
        records=event.records,
        deliveries=event.deliveries,
        error_code=event.error_code,
        error_name=error_name(event.error_code),
    )


def _coordinator_moves(events: Iterable[GroupEvent]) -> list[GroupEvent]:
    """Return an inferred event for each change of the coordinator.

    The coordinator has changed if two consecutive FindCoordinator responses have different coordinators. Two addresses
    of one broker are the same coordinator.
    """
    answers = [event for event in events if event.event == "coordinator_found"]
    return [
        GroupEvent(
            ts=later.ts,
            group_id=later.group_id,
            protocol=None,
            event="coordinator_moved",
            inferred=True,
            leader=later.leader,
            node_id=later.node_id,
            reason=f"it was {earlier.leader}",
            broker=later.broker,
        )
        for earlier, later in pairwise(answers)
        if earlier.coordinator != later.coordinator
    ]


def _report_decreases(out: Outcome, life: Life, commits: Iterable[GroupEvent]) -> None:
    """Add rows of ``violations`` for generations and committed offsets that decreased.

    - A generation decreased if the coordinator lost the state of the group, but still knew a member.
    - A committed offset decreased if it is lower than the previous committed offset of the partition. Only successful
      commits count.

    Args:
        out: rows of the life, to which the violations are added.
        life: life of the group, which ends when the group is deleted, expires or loses its state.
        commits: events of the successful offset commits of the life, in order.
    """
    if fell := life.remembered:
        out.event_violation(
            fell, "generation_went_back", f"to {fell.generation}, though the coordinator knew the member"
        )
    last: dict[tuple[str | None, int | None], int] = {}
    for event in commits:
        place, offset = (event.topic, event.partition), event.offset or 0
        earlier = last.get(place, offset)
        last[place] = offset
        if offset < earlier:
            out.event_violation(event, "commit_went_back", f"from {earlier} to {offset}")
