"""The history of the groups of one name, out of their events, of watermarks and of which broker is of which cluster.

Nothing else is looked at, so a runner may give the events of each name to a worker of its own.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from kwire.analysis import tables
from kwire.analysis.clusters import Clusters
from kwire.analysis.columns import MS, Row
from kwire.analysis.events import CLASSIC, GroupEvent, error_name
from kwire.analysis.groups import classic, consumer
from kwire.analysis.groups.lives import Life, lives
from kwire.analysis.groups.outcome import Outcome
from kwire.analysis.topics import Watermark
from kwire.analysis.transactions import ABORTED, COMMITTED, REFUSED, Transactions
from kwire.analysis.unread import Blanks, Unread, in_cluster, of_group

# The tables that a group's history fills.
FILLED = (
    "group_events",
    "rebalances",
    "members",
    "assignments",
    "assignment_changes",
    "offset_commits",
    "violations",
)


class Ends:
    """The ends of partitions over time, as answers told them. ``names``: of topics by id."""

    def __init__(
        self, found: Iterable[Watermark], names: Mapping[str, str] | None = None, clusters: Clusters | None = None
    ) -> None:
        topics, where = names or {}, clusters or Clusters()
        self._of: dict[tuple[str | None, str, int], list[tuple[int, int]]] = defaultdict(list)
        for mark in found:
            cluster = where.known(mark.conn_id, mark.broker, mark.ts)
            self._of[cluster, topics.get(mark.topic, mark.topic), mark.partition].append((mark.ts, mark.offset))
        for marks in self._of.values():
            marks.sort()

    def before(self, cluster: str | None, topic: str, partition: int, ts: int) -> tuple[int, int] | None:
        """When an end was last told at or before ``ts``, and the end; brokers of no known cluster tell of any."""
        found = []
        for where in {cluster, None}:
            marks = self._of.get((where, topic, partition), [])
            place = bisect_right(marks, (ts, 2**63))
            found += marks[max(place - 1, 0) : place]
        return max(found, default=None)


def fold(
    capture_id: str,
    group_id: str,
    events: Iterable[GroupEvent],
    ends: Ends,
    clusters: Clusters | None = None,
    transactions: Transactions | None = None,
    unread: Iterable[Unread] = (),
) -> dict[str, list[Row]]:
    """The rows of the groups of one name, by table. ``events``: all of theirs, in any order, topics named.

    ``unread``: what was not read of the whole capture.
    """
    missing = of_group(unread, group_id)
    ordered = sorted(events, key=lambda event: event.key)
    found: dict[str, list[Row]] = {name: [] for name in FILLED}
    for cluster, own in apart(ordered, clusters or Clusters()):
        if moves := _moves(own):
            own = sorted([*own, *moves], key=lambda event: event.key)
        blanks = in_cluster(missing, cluster, clusters or Clusters())
        for life in lives(own):
            for name, rows in _rows(capture_id, group_id, cluster, life, ends, transactions or Transactions(), blanks):
                found[name] += rows
    return {name: tables.TABLES[name].sorted(rows) for name, rows in found.items()}


def apart(events: Sequence[GroupEvent], clusters: Clusters) -> list[tuple[str | None, list[GroupEvent]]]:
    """The groups that share a name, by their cluster. ``events``: sorted.

    Where the cluster of a broker is not known, it is that of a broker with which it has a member in common, or else
    that of the only cluster where the same client speaks of the group.
    """
    found: dict[str | None, list[GroupEvent]] = defaultdict(list)
    named: set[str | None] = set()
    connections: dict[tuple[str | None, str | None], list[GroupEvent]] = {}
    for event in events:
        where = event.conn_id, event.broker
        own = connections.get(where)
        if own is None or event.conn_id is None:
            known = clusters.known(*where, event.ts)
            named |= {known} - {None}
            own = connections[where] = found[known or clusters.of(*where, event.ts)]
        own.append(event)
    if len(found) > 1:
        for cluster in sorted(found.keys() - named, key=lambda one: one or "", reverse=True):
            if (other := _same(cluster, found, named)) is not None:
                found[other] = sorted([*found[other], *found.pop(cluster)], key=lambda event: event.key)
    return sorted(found.items(), key=lambda item: item[0] or "")


def _same(
    cluster: str | None, found: Mapping[str | None, list[GroupEvent]], named: Collection[str | None]
) -> str | None:
    members = {event.member_id for event in found[cluster] if event.member_id}
    clients = {(event.client_id, event.host) for event in found[cluster]}
    for other in sorted(found.keys() - {cluster, None}, key=lambda one: (one not in named, one or "")):
        if any(event.member_id in members for event in found[other]):
            return other
    there = [other for other in named if other in found and any((e.client_id, e.host) in clients for e in found[other])]
    return there[0] if len(there) == 1 else None


def _rows(
    capture_id: str,
    group_id: str,
    cluster: str | None,
    life: Life,
    ends: Ends,
    transactions: Transactions,
    blanks: Blanks,
) -> Iterator[tuple[str, Iterable[Row]]]:
    """The rows of one life, by table."""
    protocols: list[str | None] = [*sorted({event.protocol for event in life.events if event.protocol})] or [None]
    outcomes = {name: Outcome(capture_id, group_id, name, cluster, life.number, blanks) for name in protocols}
    for protocol, out in outcomes.items():
        # A group that changed its protocol has two histories.
        own = [event for event in life.events if event.protocol in (protocol, None)]
        if protocol == CLASSIC:
            classic.fold(out, own, life.until)
        elif protocol is not None:
            consumer.fold(out, own, life.until)
        out.mark_incomplete(life.until)
    first = outcomes[protocols[0]]
    commits = list(_commits(first, life.events, ends, transactions))
    _went_back(first, life, commits)
    inferred = [event for out in outcomes.values() for event in out.events]
    yield "group_events", [event.row(capture_id, cluster, life.number) for event in [*life.events, *inferred]]
    yield "offset_commits", [row for _, row in commits]
    for out in outcomes.values():
        yield "rebalances", out.rebalances
        yield "members", out.members
        yield "assignments", out.assignments
        yield "assignment_changes", out.changes
        yield "violations", out.violations


def _commits(
    out: Outcome, events: Sequence[GroupEvent], ends: Ends, transactions: Transactions
) -> Iterator[tuple[GroupEvent, Row]]:
    """Commits and their rows."""
    for event in events:
        if event.topic is None or event.partition is None or event.offset is None:
            continue
        outcome, decided = transactions.outcome(event, out.cluster, events[-1].ts)
        holds = outcome not in (REFUSED, ABORTED)
        end = ends.before(out.cluster, event.topic, event.partition, event.ts) if holds else None
        row = tables.OFFSET_COMMITS.row(
            capture_id=out.capture_id,
            ts=event.ts,
            group_id=event.group_id,
            cluster=out.cluster,
            life=out.life,
            generation=event.generation,
            member_id=event.member_id,
            client_id=event.client_id,
            topic=event.topic,
            partition=event.partition,
            offset=event.offset,
            metadata=event.metadata,
            transactional=event.event.startswith("txn_"),
            error_code=event.error_code,
            error_name=error_name(event.error_code),
            outcome=outcome,
            outcome_ts=decided,
            transactional_id=event.transactional_id,
            producer_id=event.producer_id,
            producer_epoch=event.producer_epoch,
            lag=None if end is None else end[1] - event.offset,
            lag_age_ms=None if end is None else (event.ts - end[0]) / MS,
        )
        yield event, row


def _moves(events: Iterable[GroupEvent]) -> list[GroupEvent]:
    """The coordinator is told to be somewhere else than before."""
    found = [event for event in events if event.event == "coordinator_found"]
    return [
        GroupEvent(
            ts=later.ts,
            group_id=later.group_id,
            protocol=None,
            event="coordinator_moved",
            inferred=True,
            leader=later.leader,
            reason=f"it was {earlier.leader}",
            broker=later.broker,
        )
        for earlier, later in pairwise(found)
        if earlier.leader != later.leader
    ]


def _went_back(out: Outcome, life: Life, commits: Iterable[tuple[GroupEvent, Row]]) -> None:
    """Generations and commits below the ones before them; what was never the group's does not count."""
    if fell := life.remembered:
        said = f"to {fell.generation}, though the coordinator knew the member"
        out.violation(fell.ts, "generation_went_back", said, fell)
    last: dict[tuple[str, int], GroupEvent] = {}
    for event, row in commits:
        if row["outcome"] != COMMITTED:
            continue
        earlier = last.get((row["topic"], row["partition"]))
        last[row["topic"], row["partition"]] = event
        if earlier is not None and (event.offset or 0) < (earlier.offset or 0):
            out.violation(event.ts, "commit_went_back", f"from {earlier.offset} to {event.offset}", event)
