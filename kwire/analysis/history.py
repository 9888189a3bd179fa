"""The history of one group, out of its events and a table of watermarks; nothing else is looked at.

So a runner may give the events of each group to a worker of its own.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from kwire.analysis import classic, consumer, tables
from kwire.analysis.events import CLASSIC, GroupEvent, Watermark, error_name
from kwire.analysis.outcome import MS, Outcome
from kwire.analysis.tables import Row

# The tables that a group's history fills.
FILLED = ("group_events", "rebalances", "members", "assignments", "offset_commits", "violations")


class Ends:
    """The ends of partitions over time, as answers told them."""

    def __init__(self, found: Iterable[Watermark], names: Mapping[str, str] | None = None) -> None:
        known = names or {}
        self._of: dict[tuple[str, int], list[tuple[int, int]]] = defaultdict(list)
        for mark in found:
            self._of[known.get(mark.topic, mark.topic), mark.partition].append((mark.ts, mark.offset))
        for marks in self._of.values():
            marks.sort()

    def before(self, topic: str, partition: int, ts: int) -> tuple[int, int] | None:
        """When an end was last told at or before ``ts``, and the end."""
        marks = self._of.get((topic, partition), [])
        place = bisect_right(marks, (ts, 2**63))
        return marks[place - 1] if place else None


def fold(capture_id: str, group_id: str, events: Iterable[GroupEvent], ends: Ends) -> dict[str, list[Row]]:
    """The rows of one group by table. ``events``: all of its events, in any order, topics named."""
    ordered = sorted(events, key=lambda event: event.key)
    protocols = sorted({event.protocol for event in ordered if event.protocol})
    outcomes = [_under(capture_id, group_id, protocol, ordered) for protocol in protocols]
    inferred = [event for outcome in outcomes for event in outcome.events]
    inferred += _moves(ordered)
    extra = Outcome(capture_id, group_id, protocols[0] if protocols else CLASSIC)
    _went_back(extra, ordered)
    outcomes.append(extra)
    return {
        "group_events": tables.GROUP_EVENTS.sorted(event.row(capture_id) for event in [*ordered, *inferred]),
        "rebalances": tables.REBALANCES.sorted(row for outcome in outcomes for row in outcome.rebalances),
        "members": tables.MEMBERS.sorted(row for outcome in outcomes for row in outcome.members),
        "assignments": tables.ASSIGNMENTS.sorted(row for outcome in outcomes for row in outcome.assignments),
        "offset_commits": tables.OFFSET_COMMITS.sorted(_commits(capture_id, ordered, ends)),
        "violations": tables.VIOLATIONS.sorted(row for outcome in outcomes for row in outcome.violations),
    }


def _under(capture_id: str, group_id: str, protocol: str, events: Sequence[GroupEvent]) -> Outcome:
    """What a group did under one protocol; one that changed it has two histories."""
    own = [event for event in events if event.protocol in (protocol, None)]
    if protocol == CLASSIC:
        return classic.fold(capture_id, group_id, own)
    return consumer.fold(capture_id, group_id, protocol, own)


def _commits(capture_id: str, events: Iterable[GroupEvent], ends: Ends) -> Iterable[Row]:
    for event in events:
        if event.topic is None or event.partition is None or event.offset is None:
            continue
        end = ends.before(event.topic, event.partition, event.ts)
        yield tables.OFFSET_COMMITS.row(
            capture_id=capture_id,
            ts=event.ts,
            group_id=event.group_id,
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
            lag=None if end is None else end[1] - event.offset,
            lag_age_ms=None if end is None else (event.ts - end[0]) / MS,
        )


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


def _went_back(out: Outcome, events: Iterable[GroupEvent]) -> None:
    """Commits below the one before them."""
    last: dict[tuple[str, int], GroupEvent] = {}
    for event in events:
        if event.event != "commit" or event.error_code is None or event.topic is None or event.partition is None:
            continue
        earlier = last.get((event.topic, event.partition))
        last[event.topic, event.partition] = event
        if earlier is not None and (event.offset or 0) < (earlier.offset or 0):
            out.violation(
                event.ts,
                "commit_went_back",
                f"from {earlier.offset} to {event.offset}",
                generation=event.generation,
                member_id=event.member_id,
                client_id=event.client_id,
                topic=event.topic,
                partition=event.partition,
            )
