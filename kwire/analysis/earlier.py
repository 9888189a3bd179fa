"""The state that the analysis of a stream keeps from one part to the next part.

A stream is analysed in parts, so that memory stays bounded. With the kept events, groups continue in the next part:

- for each current member, the events of the calls with its latest join, assignment and owned partitions;
- for each group, all events of the last OVERLAP_US of the part, and of a rebalance that is not finished.

The events of older calls get a time just before the last OVERLAP_US. With their true time, a member would seem to have
expired, because its heartbeats after these calls are not kept. The column ``joined_ts`` of the table ``members`` still
has the true time.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from kwire.analysis.clusters import ClusterStatement
from kwire.analysis.columns import Row
from kwire.analysis.events import GroupEvent, by_key
from kwire.analysis.findings.observations import Observer
from kwire.analysis.topics import Watermark

K = TypeVar("K")
V = TypeVar("V")

OVERLAP_US = 5_000_000  # all events of this time, and of an unfinished rebalance, are kept
MAX_OVERLAP_US = 600_000_000  # of a rebalance that is not finished
MAX_GROUPS = 10_000  # whose members are kept
MAX_MEMBERS = 5_000  # of one group
MAX_PARTITIONS = 200_000  # whose high watermark is kept
MAX_NAMES = 100_000  # topic ids
MAX_STATEMENTS = 10_000  # responses that name brokers of a cluster

# Events that show membership, assignment or owned partitions.
_STATE = frozenset(
    {
        "member_id_given",
        "join_done",
        "planned",
        "sync_done",
        "subscribed",
        "owned",
        "epoch_change",
        "assigned",
    }
)
_ENDED = ("ended_ts", "joined_ts", "started_ts")  # times of a rebalance, the latest first


class Earlier:
    """The state of a stream at the end of its latest part.

    Attributes:
        begin: end of the latest part, which is the beginning of the next part, in microseconds since 1970; 0 before the
            end of the first part.
        names: topic names; a key is the text ``id:`` followed by the topic id.
        statements: cluster ids and brokers in responses, by ``ClusterStatement.content``.
        marks: latest high watermarks, by broker, topic and partition.
        events: events to begin the next part with, by group id.
        observers: collectors of call counts, transactions and fetches of the open connections, by connection id.
    """

    def __init__(self) -> None:
        self.begin = 0
        self.names: OrderedDict[str, str] = OrderedDict()
        self.statements: OrderedDict[tuple[object, ...], ClusterStatement] = OrderedDict()
        self.marks: OrderedDict[tuple[str, str, int], Watermark] = OrderedDict()
        self.events: dict[str, list[GroupEvent]] = {}
        self.observers: dict[str, Observer] = {}
        self._joined: dict[tuple[str, str], int] = {}  # first time of a membership, by group and member

    def end_part(
        self,
        end: int,
        names: Mapping[str, str],
        statements: Mapping[tuple[object, ...], ClusterStatement],
        marks: Iterable[Watermark],
        events: Mapping[str, Collection[GroupEvent]],
        observers: Mapping[str, Observer],
        tables: dict[str, Sequence[Row]],
    ) -> None:
        """Remove rows from ``tables`` that the tables of earlier parts contain, and store the data for the next part.

        Args:
            end: latest time in the part, in microseconds since 1970.
            names: topic names in the part; a key is the text ``id:`` followed by the topic id.
            statements: cluster ids and brokers in the part, by ``ClusterStatement.content``.
            marks: high watermarks in the part.
            events: events of the part by group id, including the events that were kept from the earlier parts.
            observers: collectors of the data of open connections, by connection id.
            tables: tables of the part: rows by table name. The values of this dict are replaced by lists without rows
                of earlier parts, and ``joined_ts`` in rows of ``members`` is set to the true time.
        """
        if self.begin:
            self._remove_known_rows(tables)
        for row in tables["members"]:
            if row["joined_ts"] is not None:
                key = row["group_id"], row["member_id"]
                self._joined[key] = min(row["joined_ts"], self._joined.get(key, row["joined_ts"]))
        recent: dict[str, int] = defaultdict(lambda: end - OVERLAP_US)
        for row in tables["rebalances"]:
            if row["ended_ts"] is None and row["started_ts"] >= end - MAX_OVERLAP_US:
                recent[row["group_id"]] = min(recent[row["group_id"]], row["started_ts"] - OVERLAP_US)
        current: dict[str, set[str]] = defaultdict(set)
        for row in tables["members"]:
            if row["left_ts"] is None or row["left_ts"] >= recent[row["group_id"]]:
                current[row["group_id"]].add(row["member_id"])
        self._joined = {key: ts for key, ts in self._joined.items() if key[1] in current[key[0]]}
        _keep(self.names, names, MAX_NAMES)
        _keep(self.statements, statements, MAX_STATEMENTS)
        _keep(self.marks, {(one.broker, one.topic, one.partition): one for one in marks}, MAX_PARTITIONS)
        self.observers = dict(observers)
        self.begin = end
        latest = sorted(events.items(), key=lambda item: max(event.ts for event in item[1]))[-MAX_GROUPS:]
        self.events = {group: kept for group, own in latest if (kept := self._kept(own, current[group], recent[group]))}

    @staticmethod
    def _kept(events: Collection[GroupEvent], members: Collection[str], recent: int) -> list[GroupEvent]:
        """Return the events of a group that the next part begins with.

        Args:
            events: events of the group.
            members: ids of the current members, and of the members that have left since ``recent``.
            recent: time from which all events are kept, in microseconds since 1970.
        """
        calls: dict[tuple[str | None, int], list[GroupEvent]] = defaultdict(list)
        wanted: dict[tuple[str, str], tuple[str | None, int]] = {}
        for event in by_key(events):
            calls[event.conn_id, event.number].append(event)
            if event.event in _STATE and event.member_id in members and not event.error_code:
                wanted[event.member_id or "", event.event] = event.conn_id, event.number
        generations = [event.generation or 0 for own in calls.values() for event in own if event.event == "join_done"]
        classic = max((one for one in generations), default=0)
        chosen = {*list(OrderedDict.fromkeys(member for member, _ in wanted))[-MAX_MEMBERS:]}
        places = {place for (member, _), place in wanted.items() if member in chosen}
        moved: list[GroupEvent] = []
        kept: list[GroupEvent] = []
        for place, own in calls.items():
            if max(event.ts for event in own) >= recent:
                kept += own
            elif place in places and not _is_old_join(own, classic):
                moved += own
        moved.sort(key=lambda event: event.key)
        first = recent - len(moved)
        return [*(replace(event, ts=first + number) for number, event in enumerate(moved)), *kept]

    def _remove_known_rows(self, tables: dict[str, Sequence[Row]]) -> None:
        """Remove rows that earlier parts have already reported, and set ``joined_ts`` of members to the true time.

        ``tables``: rows by table name. The method replaces lists in this dict, and changes rows of ``members``.
        """
        known = {(event.conn_id, event.number, event.part): event for own in self.events.values() for event in own}
        commits = {
            (event.group_id, event.ts, event.member_id, event.partition)
            for event in known.values()
            if event.offset is not None
        }
        begin = self.begin
        tables["group_events"] = [
            row
            for row in tables["group_events"]
            if (row["conn_id"], row["number"], row["part"]) not in known
            and not (row["inferred"] and row["ts"] <= begin)
        ]
        tables["offset_commits"] = [
            row
            for row in tables["offset_commits"]
            if (row["group_id"], row["ts"], row["member_id"], row["partition"]) not in commits
        ]
        tables["rebalances"] = [
            row for row in tables["rebalances"] if max(row[name] for name in _ENDED if row[name] is not None) > begin
        ]
        for name in ("violations", "assignment_changes", "share_records"):
            tables[name] = [row for row in tables[name] if row["ts"] > begin]
        tables["findings"] = [row for row in tables["findings"] if row["end_ts"] > begin]
        current: dict[tuple[str | None, ...], int] = {}
        for row in tables["members"]:
            group = row["group_id"], row["cluster"], row["protocol"]
            if (row["resumed_ts"] or row["joined_ts"] or 0) <= begin:
                current[group] = max(current.get(group, -1), row["generation"])
        for row in tables["members"]:
            row["joined_ts"] = self._joined.get((row["group_id"], row["member_id"]), row["joined_ts"])
        for name in ("members", "assignments"):
            tables[name] = [
                row
                for row in tables[name]
                if row["generation"] >= current.get((row["group_id"], row["cluster"], row["protocol"]), -1)
            ]


def _is_old_join(call: Iterable[GroupEvent], latest: int) -> bool:
    """Return whether a call of the classic protocol belongs to a generation before the latest one.

    Args:
        call: events of the call.
        latest: latest generation id of the group.
    """
    return any(
        event.protocol == "classic" and event.generation is not None and 0 <= event.generation < latest
        for event in call
    )


def _keep(kept: OrderedDict[K, V], new: Mapping[K, V], most: int) -> None:
    """Add entries at the end of ``kept``. If it has more than ``most`` entries then, remove the first entries."""
    for key, value in new.items():
        kept[key] = value
        kept.move_to_end(key)
    while len(kept) > most:
        kept.popitem(last=False)
