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
    collected = _Collected(capture_id, earlier, frames=frames, bodies=bodies, what_if=assignor is not None)
    for call in calls:
        collected.add(call)
    collected.close(connections)
    settings = settings or {}
    groups = _Groups(collected, assignor, settings)
    rows_by_table: dict[str, Sequence[Row]] = {name: [] for name in tables.TABLES}
    rows_by_table |= collected.usage.rows(capture_id, collected.names, groups.clusters)
    rows_by_table |= groups.rows(earlier)
    rows_by_table["findings"] = tables.FINDINGS.sorted([*collected.found(groups.clusters, settings), *groups.found])
    if earlier is not None:
        earlier.end_part(
            max(collected.end, earlier.begin),
            collected.names,
            collected.statements,
            collected.marks,
            groups.named,
            collected.continued(),
            rows_by_table,
        )
    rows_by_table["frames"] = collected.frame_rows.rows()
    of_connections = collected.connections.values()
    rows_by_table["connections"] = tables.CONNECTIONS.sorted(
        connection_row(one, capture_id, groups.clusters) for one in of_connections
    )
    remarks = (problem_row(one, capture_id) for one in (*of_connections, *problems))
    rows_by_table["problems"] = tables.PROBLEMS.sorted(row for row in remarks if row is not None)
    return rows_by_table


class _Collected:
    """What the calls and connections of a capture contain, collected in one pass.

    Args:
        capture_id: id of the capture.
        earlier: state of a stream after its earlier parts; None for a whole capture.
        frames: True to collect the rows of the table ``frames``.
        bodies: True to include request and response bodies as JSON.
        what_if: True to collect what a replay of the groups with another assignor needs.
    """

    def __init__(self, capture_id: str, earlier: Earlier | None, *, frames: bool, bodies: bool, what_if: bool) -> None:
        self.capture_id = capture_id
        self.end = 0  # time of the latest frame, in microseconds since 1970
        self.connections: dict[str, Connection] = {}
        self.frame_rows = FrameRows(capture_id, bodies=bodies)
        self.usage = usage.Usage(self.connections)
        self.events: dict[str, list[GroupEvent]] = defaultdict(list)
        self.names: dict[str, str] = {}
        self.marks: list[Watermark] = []
        self.endings: list[transactions.Ending] = []
        self.statements: dict[tuple[Any, ...], ClusterStatement] = {}
        self.subscribed: list[evidence.Subscribed] = []
        self.sizes: list[evidence.Size] = []
        self.spans: list[FetchSpan] = []
        self.missing: list[unread.Unread] = []
        self._frames = frames
        self._what_if = what_if
        self._fresh = evidence.Fresh()
        self._watches: dict[str, unread.Watch] = defaultdict(unread.Watch)
        self._observers: dict[str, Observer] = defaultdict(Observer)
        self._of_connections: dict[str, tuple[Observer, unread.Watch]] = {}
        self._steps: list[Step] = []
        self._tallies: list[Tally] = []
        self._connected: list[Connected] = []
        if earlier is not None:
            self.names |= earlier.names
            self.statements |= earlier.statements
            self.marks += earlier.marks.values()
            self._observers |= earlier.observers
            self.events |= {group: [*events] for group, events in earlier.events.items()}

    def add(self, call: Call) -> None:
        """Collect what a call contains; calls are added in order of time."""
        latest = call.response_us or call.request_us or 0
        if latest > self.end:
            self.end = latest
        refused = usage.refusals(call)
        if self._frames:
            self.frame_rows.add(call, refused)
        self.usage.add(call, refused)
        state = self._of_connections.get(call.connection)
        if state is None:
            state = self._observers[call.connection], self._watches[call.connection]
            self._of_connections[call.connection] = state
        observer, watch = state
        observer.note(call, refused)
        if call.api_key not in _OF_MEMBERS:
            self._steps += observer.steps(call)
            self.names |= topics.topic_names(call)
            self.marks += topics.watermarks(call)
            self.endings += transactions.endings(call)
            if saying := statement_of(call):
                self.statements.setdefault(saying.content, saying)
        if self._what_if:
            self.subscribed += evidence.subscribed(call)
            self.sizes += self._fresh.of(evidence.sizes(call))
        happened = extract.events_of(call)
        watch.note(call, happened)
        for event in happened:
            self.events[event.group_id].append(event)

    def close(self, connections: Iterable[Connection]) -> None:
        """Collect what the connections contain, after the last call."""
        self.connections |= {connection.id: connection for connection in connections}
        for connection in self.connections.values():
            self.missing += self._watches[connection.id].finish(connection)
            observer = self._observers[connection.id]
            self._tallies += observer.drain()
            whole, last, fetched = observer.finish(connection)
            self._connected += [] if whole is None else [whole]
            self._steps += last
            self.spans += fetched

    def found(self, clusters: Clusters, settings: Mapping[str, float]) -> list[Row]:
        """Return the findings about clients and transactions.

        Args:
            clusters: clusters of the brokers.
            settings: changed thresholds of detectors.
        """
        found = findings.of_clients(self.capture_id, self._tallies, self._connected, clusters, settings)
        return found + findings.of_transactions(self.capture_id, self._steps, clusters, settings)

    def continued(self) -> dict[str, Observer]:
        """Return the observers of the open connections, for the next part of a stream."""
        still_open = {one.id for one in self.connections.values() if one.closed is None}
        return {name: observer.continued() for name, observer in self._observers.items() if name in still_open}


class _Groups:
    """The histories and findings of all groups of a capture.

    Args:
        collected: what the calls contain.
        assignor: assignor for a replay of the groups; None for no replay.
        settings: changed thresholds of detectors.

    Attributes:
        clusters: clusters of the brokers.
        found: findings about the groups; ``rows`` fills it.
        named: events with topic names by group, for the next part of a stream; ``rows`` fills it.
    """

    def __init__(self, collected: _Collected, assignor: str | None, settings: Mapping[str, float]) -> None:
        self.clusters = Clusters(collected.statements.values())
        self.found: list[Row] = []
        self.named: dict[str, list[GroupEvent]] = {}
        self._collected = collected
        self._assignor = assignor
        self._settings = settings

    def rows(self, earlier: Earlier | None) -> dict[str, Sequence[Row]]:
        """Return the rows of the tables of groups.

        ``earlier``: state of a stream, for which ``named`` is kept; None for a whole capture.
        """
        of_replay = () if self._assignor is None else tables.ON_REQUEST
        rows: dict[str, Any] = {name: [] for name in (*history.FILLED, *of_replay)}
        rows |= {name: TupleRows(tables.TABLES[name]) for name in history.AS_TUPLES}
        collected, clusters = self._collected, self.clusters
        events = EventRows(collected.capture_id)
        ends = history.Ends(collected.marks, collected.names, clusters)
        ended = transactions.Transactions(collected.endings, clusters)
        known = evidence.Evidence(collected.subscribed, collected.sizes, collected.names, clusters)
        for group, happened in sorted(collected.events.items()):
            named = [name_topics(event, collected.names) for event in happened]
            if earlier is not None:
                self.named[group] = named
            of_group = history.fold(collected.capture_id, group, named, ends, clusters, ended, collected.missing)
            self.found += findings.of_group(
                collected.capture_id, group, of_group, ends, collected.spans, collected.names, clusters, self._settings
            )
            if self._assignor is not None:
                of_group |= comparison.fold(self._assignor, of_group, known)
            for name, made in of_group.items():
                if isinstance(made, EventRows):
                    events.parts += made.parts
                elif isinstance(made, TupleRows):
                    rows[name].append_sorted(made)
                else:
                    rows[name] += made
        return {**rows, "group_events": events}
