"""Division of the events of a large group into slices, so that several processes can compute the history of the group.

Most events of a large group are about one partition: commits, and acquired or acknowledged records. Each partition
belongs to one slice, and only this slice gets the events about the partition. Each slice gets all events that are about
no partition. If a call has events about partitions, each slice also gets a witness for the call: a copy of one of these
events without partition and offset. It shows that the member was alive.

The history of a slice is computed as that of a whole group. Then a slice contributes the rows about its partitions. The
first slice also contributes the rows about no partition. All slices together contribute the rows of the whole group.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from kwire.analysis import tables
from kwire.analysis.columns import Row
from kwire.analysis.events import SHARE_RECORDS, GroupEvent

DIVIDED = frozenset({"commit", "commit_error", "txn_commit", "txn_commit_error"}) | SHARE_RECORDS  # kinds of events
_OF_COMMITS = frozenset({"commit_fenced", "commit_old_generation", "commit_not_owner", "commit_went_back"})
_BY_PARTITION = frozenset({"offset_commits", "share_records"})


def slice_of(topic: str, partition: int, count: int) -> int:
    """Return the number of the slice to which a partition belongs, from 0.

    Args:
        topic: topic name; if it is unknown, the text ``id:`` followed by the topic id.
        partition: partition number.
        count: number of slices.
    """
    return zlib.crc32(f"{topic}-{partition}".encode(errors="surrogatepass")) % count


def slices(events: Iterable[GroupEvent], count: int) -> list[list[GroupEvent]]:
    """Return a list with the events of each slice; the index is the number of the slice.

    The function may also be called for portions of the group's events. Then the caller concatenates the results for
    each slice. If the events of a call are in two portions, there is an additional witness, which changes no row.

    Args:
        events: events of one group id, with topic names, in any order.
        count: number of slices.
    """
    parted: list[list[GroupEvent]] = [[] for _ in range(count)]
    witnesses: dict[tuple[str | None, int, str, int | None], GroupEvent] = {}
    for event in events:
        if event.topic is not None and event.partition is not None and event.event in DIVIDED:
            parted[slice_of(event.topic, event.partition, count)].append(event)
            call = event.conn_id, event.number, event.event, event.error_code
            if call not in witnesses or event.part < witnesses[call].part:
                witnesses[call] = event
        else:
            for part in parted:
                part.append(event)
    for event in witnesses.values():
        witness = replace(event, topic=None, partition=None, offset=None, metadata=None)
        for part in parted:
            part.append(witness)
    return parted


def own_rows(rows_by_table: Mapping[str, Sequence[Row]], *, first: bool) -> dict[str, list[Row]]:
    """Return the rows that a slice contributes to the tables, by table name.

    Args:
        rows_by_table: rows of ``history.fold`` for the events of the slice.
        first: True for the first slice, which also contributes the rows about no partition.
    """
    return {name: [row for row in rows if _is_own(name, row, first=first)] for name, rows in rows_by_table.items()}


def _is_own(table: str, row: Row, *, first: bool) -> bool:
    if table in _BY_PARTITION:
        return row["topic"] is not None
    if table == "group_events" and row["event"] in DIVIDED:
        return row["topic"] is not None
    if table == "violations" and row["kind"] in _OF_COMMITS:
        return True
    return first


def for_findings(rows_by_table: Mapping[str, Sequence[Row]], *, first: bool) -> dict[str, list[Row]]:
    """Return the rows of a slice that detectors need, by table name.

    With these rows of all slices, detectors yield the same findings as with all rows of the group. The result has the
    rows of ``own_rows``, but fewer rows of ``group_events`` about partitions: the rows with an error, and the first row
    of each partition. The first slice also has one row without partition for each successful call about partitions.

    Args:
        rows_by_table: rows of ``history.fold`` for the events of the slice.
        first: True for the first slice, which also contributes the rows about no partition.
    """
    rows = own_rows(rows_by_table, first=first)
    places: set[tuple[str, int]] = set()
    events = []
    for row in rows_by_table["group_events"]:
        place = row["topic"], row["partition"]
        if row["event"] not in DIVIDED:
            is_needed = first
        elif row["topic"] is None:
            is_needed = first and not row["error_code"]
        else:
            is_needed = bool(row["error_code"]) or place not in places
            places.add(place)
        if is_needed:
            events.append(row)
    return rows | {"group_events": events}


def merged(slices: Iterable[Mapping[str, Sequence[Row]]]) -> dict[str, list[Row]]:
    """Return the sorted rows of a group, by table name. ``slices``: rows of each slice by table name, in any order."""
    rows_by_table: dict[str, list[Row]] = {}
    for one in slices:
        for name, rows in one.items():
            rows_by_table.setdefault(name, []).extend(rows)
    return {name: tables.TABLES[name].sorted(rows) for name, rows in rows_by_table.items()}
