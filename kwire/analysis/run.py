"""The analysis of a capture in one process: from calls to all tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kwire.analysis import extract, tables, topics, transactions, unread, usage
from kwire.analysis.clusters import Clusters, ClusterStatement, statement_of
from kwire.analysis.columns import Row, TupleRows
from kwire.analysis.earlier import Earlier
from kwire.analysis.events import EventRows, GroupEvent, name_topics
from kwire.analysis.findings import fold as findings
from kwire.analysis.findings.observations import Connected, FetchSpan, Observer, Step, Tally
from kwire.analysis.frames import FrameRows, connection_row, problem_row
from kwire.analysis.groups import history
from kwire.analysis.topics import Watermark
from kwire.analysis.what_if import comparison, evidence
from kwire.apikeys import ApiKey
from kwire.capture.calls.model import Call, Connection
from kwire.capture.files.blocks import Problem, Skipped

# APIs whose calls contain no topic names, high watermarks, transactions or addresses of brokers.
_OF_MEMBERS = unread.GROUP_APIS - {ApiKey.TXN_OFFSET_COMMIT}


def analyse(
    calls: Iterable[Call],
    connections: Iterable[Connection],
    capture_id: str,
    problems: Iterable[Problem | Skipped] = (),
    *,
    frames: bool = True,
    bodies: bool = True,
    assignor: str | None = None,
    settings: Mapping[str, float] | None = None,
    earlier: Earlier | None = None,
) -> dict[str, Sequence[Row]]:
    """Return the sorted rows of every table, by table name.

    Memory holds all rows and the events of all groups, but no calls.

    Args:
        calls: all calls of the capture, in order of time.
        connections: all connections of the capture. The function iterates over ``connections`` and ``problems`` after
            the last call.
        capture_id: id of the capture, for the column ``capture_id`` of every table.
        problems: damage and skipped packets of the files.
        frames: True to fill the table ``frames``; False to leave this table empty.
        bodies: True to include request and response bodies as JSON.
        assignor: assignor for a replay of the groups, one of ``replay.NAMES``, which adds the tables ON_REQUEST; None
            for no replay.
        settings: changed thresholds of detectors, from ``findings.settings_of``; None for all defaults.
        earlier: state of a stream after its earlier parts. ``calls`` is the next part of this stream, and the state is
            updated. None for a whole capture.
    """
    rows_by_table: dict[str, Sequence[Row]] = {name: [] for name in tables.TABLES}
    frame_rows = FrameRows(capture_id, bodies=bodies)
    by_id: dict[str, Connection] = {}
    counts = usage.Usage(by_id)
    by_group: dict[str, list[GroupEvent]] = defaultdict(list)
    names: dict[str, str] = {}
    marks: list[Watermark] = []
    endings: list[transactions.Ending] = []
    statements: dict[tuple[Any, ...], ClusterStatement] = {}
    subscribed: list[evidence.Subscribed] = []
    sizes: list[evidence.Size] = []
    fresh = evidence.Fresh()
    watches: dict[str, unread.Watch] = defaultdict(unread.Watch)
    observers: dict[str, Observer] = defaultdict(Observer)
    steps: list[Step] = []
    tallies: list[Tally] = []
    connected: list[Connected] = []
    spans: list[FetchSpan] = []
    by_connection: dict[str, tuple[Observer, unread.Watch]] = {}
    end = 0
    if earlier is not None:
        names |= earlier.names
        statements |= earlier.statements
        marks += earlier.marks.values()
        observers |= earlier.observers
        by_group |= {group: [*events] for group, events in earlier.events.items()}
    for call in calls:
        latest = call.response_us or call.request_us or 0
        if latest > end:
            end = latest
        refused = usage.refusals(call)
        if frames:
            frame_rows.add(call, refused)
        counts.add(call, refused)
        state = by_connection.get(call.connection)
        if state is None:
            state = by_connection[call.connection] = observers[call.connection], watches[call.connection]
        observer, watch = state
        observer.note(call, refused)
        if call.api_key not in _OF_MEMBERS:
            steps += observer.steps(call)
            names |= topics.topic_names(call)
            marks += topics.watermarks(call)
            endings += transactions.endings(call)
            if saying := statement_of(call):
                statements.setdefault(saying.content, saying)
        if assignor is not None:
            subscribed += evidence.subscribed(call)
            sizes += fresh.of(evidence.sizes(call))
        happened = extract.events_of(call)
        watch.note(call, happened)
        for event in happened:
            by_group[event.group_id].append(event)
    by_id |= {connection.id: connection for connection in connections}
    clusters = Clusters(statements.values())
    rows_by_table |= counts.rows(capture_id, names, clusters)
    ends = history.Ends(marks, names, clusters)
    ended = transactions.Transactions(endings, clusters)
    if assignor is not None:
        rows_by_table |= {name: [] for name in tables.ON_REQUEST}
    known_of_groups = evidence.Evidence(subscribed, sizes, names, clusters)
    missing = [one for connection in by_id.values() for one in watches[connection.id].finish(connection)]
    for connection in by_id.values():
        observer = observers[connection.id]
        tallies += observer.drain()
        whole, last, fetched = observer.finish(connection)
        connected += [] if whole is None else [whole]
        steps += last
        spans += fetched
    found = findings.of_clients(capture_id, tallies, connected, clusters, settings or {})
    found += findings.of_transactions(capture_id, steps, clusters, settings or {})
    all_named: dict[str, list[GroupEvent]] = {}
    rows_of_groups: dict[str, Any] = {name: [] for name in (*history.FILLED, *tables.ON_REQUEST)}
    rows_of_groups |= {name: TupleRows(tables.TABLES[name]) for name in history.AS_TUPLES}
    rows_of_events = EventRows(capture_id)
    for group, happened in sorted(by_group.items()):
        named = [name_topics(event, names) for event in happened]
        if earlier is not None:
            all_named[group] = named
        made_of_group = history.fold(capture_id, group, named, ends, clusters, ended, missing)
        found += findings.of_group(capture_id, group, made_of_group, ends, spans, names, clusters, settings or {})
        if assignor is not None:
            made_of_group |= comparison.fold(assignor, made_of_group, known_of_groups)
        for name, rows in made_of_group.items():
            if isinstance(rows, EventRows):
                rows_of_events.parts += rows.parts
            elif isinstance(rows, TupleRows):
                rows_of_groups[name].append_sorted(rows)
            else:
                rows_of_groups[name] += rows
    rows_by_table |= {name: rows for name, rows in rows_of_groups.items() if name in rows_by_table}
    rows_by_table["group_events"] = rows_of_events
    rows_by_table["findings"] = tables.FINDINGS.sorted(found)
    if earlier is not None:
        still_open = {one.id for one in by_id.values() if one.closed is None}
        going_on = {name: observer.continued() for name, observer in observers.items() if name in still_open}
        earlier.end_part(max(end, earlier.begin), names, statements, marks, all_named, going_on, rows_by_table)
    rows_by_table["frames"] = frame_rows.rows()
    rows_by_table["connections"] = tables.CONNECTIONS.sorted(
        connection_row(one, capture_id, clusters) for one in by_id.values()
    )
    remarks = (problem_row(one, capture_id) for one in (*by_id.values(), *problems))
    rows_by_table["problems"] = tables.PROBLEMS.sorted(row for row in remarks if row is not None)
    return rows_by_table
