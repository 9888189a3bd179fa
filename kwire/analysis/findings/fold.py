"""The rows of ``findings`` about groups, clients and transactional ids. Each function depends only on its arguments."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from operator import itemgetter
from typing import Any

from kwire.analysis import tables
from kwire.analysis.clusters import Clusters
from kwire.analysis.columns import Row, TupleRows
from kwire.analysis.events import EventRows, GroupEvent, by_key
from kwire.analysis.findings.catalogue import DETECTORS
from kwire.analysis.findings.evidence import Evidence, Place
from kwire.analysis.findings.model import CLIENT, GROUP, TRANSACTION, Detector, Finding, rows
from kwire.analysis.findings.observations import Connected, FetchSpan, Step, Tally, order_of
from kwire.analysis.findings.views import ClientView, GroupView, TransactionView
from kwire.analysis.groups.history import Ends

Settings = Mapping[str, float]  # changed thresholds, by ``detector.threshold``
Client = tuple[str | None, str | None, str]  # cluster, client id and host
OF_GROUPS = (
    "group_events",
    "rebalances",
    "members",
    "assignments",
    "offset_commits",
    "violations",
)  # tables that are read


def settings_of(changes: Iterable[str]) -> dict[str, float]:
    """Return the values of thresholds by ``detector.threshold``, from texts of the form ``detector.threshold=value``.

    Raises: ValueError for an unknown name, or a value that is missing, negative or not a finite number.
    """
    known = {f"{detector.name}.{one.name}" for detector in DETECTORS for one in detector.thresholds}
    settings: dict[str, float] = {}
    for change in changes:
        name, _, value = change.partition("=")
        if name not in known:
            raise ValueError(f"unknown threshold {name}: docs/findings.md lists all thresholds")
        try:
            settings[name] = float(value)
        except ValueError:
            raise ValueError(f"{change}: {value or 'nothing'} is not a number") from None
        if not 0 <= settings[name] < inf:
            raise ValueError(f"{change}: the threshold must be a number from 0")
    return settings


def of_group(
    capture_id: str,
    group_id: str,
    made: Mapping[str, Sequence[Row]],
    ends: Ends,
    spans: Iterable[FetchSpan],
    names: Mapping[str, str],
    clusters: Clusters,
    settings: Settings,
) -> list[Row]:
    """Return the rows of ``findings`` about all groups with one group id; each cluster may have such a group.

    Args:
        capture_id: id of the capture.
        group_id: the group id.
        made: rows of these groups by table name, from ``history.fold``.
        ends: end offsets of partitions.
        spans: periods in which partitions were fetched. Partitions that these groups do not commit are ignored.
        names: topic names; a key is the text ``id:`` followed by the topic id.
        clusters: clusters of the brokers.
        settings: changed thresholds of detectors, by ``detector.threshold``.
    """
    return of_views(capture_id, views_of(group_id, made, ends, spans, names, clusters), settings)


def of_views(capture_id: str, views: Mapping[str | None, GroupView], settings: Settings) -> list[Row]:
    """Return the rows of ``findings`` about groups. ``views``: the groups by cluster, from ``views_of``."""
    found: list[Row] = []
    for cluster, view in views.items():
        found += rows(_found(GROUP, view, settings), capture_id, view.group_id, cluster)
    return tables.FINDINGS.sorted(found)


def views_of(
    group_id: str,
    made: Mapping[str, Sequence[Row]],
    ends: Ends,
    spans: Iterable[FetchSpan],
    names: Mapping[str, str],
    clusters: Clusters,
    earlier: Mapping[str | None, Evidence] | None = None,
) -> dict[str | None, GroupView]:
    """Return the input of detectors for all groups with one group id, by cluster, in the order of the clusters.

    Args:
        group_id: the group id.
        made: rows of these groups by table name, from ``history.fold``.
        ends: end offsets of partitions.
        spans: periods in which partitions were fetched. Partitions that these groups do not commit are ignored.
        names: topic names; a key is the text ``id:`` followed by the topic id.
        clusters: clusters of the brokers.
        earlier: evidence of rows that a stream has removed, by cluster; None if all rows are given.
    """
    apart: dict[str | None, dict[str, Sequence[Row]]] = defaultdict(lambda: {name: [] for name in OF_GROUPS})
    for name in OF_GROUPS:
        if name != "group_events":
            for cluster, rows_of_cluster in by_cluster(made[name]):
                apart[cluster][name] = rows_of_cluster
    happened = _events(made["group_events"])
    fetched: dict[Place, list[tuple[str | None, FetchSpan]]] = defaultdict(list)
    for span in spans:
        place = names.get(span.topic, span.topic), span.partition
        fetched[place].append((clusters.id_of(span.conn_id, span.broker, span.begin), span))
    views: dict[str | None, GroupView] = {}
    for cluster in sorted({*apart, *happened}, key=lambda one: one or ""):
        own, events = apart[cluster], happened.get(cluster, [])
        about = {(one.topic, one.partition) for one in events}
        places = sorted((topic, partition) for topic, partition in about if topic is not None and partition is not None)
        read = [
            _named(span, place[0])
            for place in places
            for where, span in fetched.get(place, ())
            if where in (cluster, None) or cluster is None
        ]
        views[cluster] = GroupView(
            group_id,
            events,
            sorted(own["rebalances"], key=lambda row: row["started_ts"]),
            sorted(own["members"], key=lambda row: (row["life"], row["generation"], row["member_id"])),
            own["assignments"],
            in_time_order(own["offset_commits"]),
            own["violations"],
            {place: marks for place in places if (marks := ends.all(cluster, *place))},
            sorted(read, key=lambda span: (span.begin, span.conn_id, span.topic, span.partition)),
            (earlier or {}).get(cluster) or Evidence(),
        )
    return views


def by_cluster(rows: Sequence[Row]) -> Iterable[tuple[str | None, Sequence[Row]]]:
    """Return the rows of each cluster, as pairs of the cluster and its rows, in the order of ``rows``."""
    if isinstance(rows, TupleRows):
        clusters = set(rows.column("cluster"))
        return [(one, rows if len(clusters) == 1 else rows.where("cluster", one)) for one in clusters]
    apart: dict[str | None, list[Row]] = defaultdict(list)
    for row in rows:
        apart[row["cluster"]].append(row)
    return apart.items()


def in_time_order(rows: Sequence[Row]) -> Sequence[Row]:
    """Return the rows of one group in one cluster, sorted by ``ts``. The order of rows with the same time is kept."""
    if isinstance(rows, TupleRows):
        return rows  # the table ``offset_commits`` is sorted by time after group and cluster
    return sorted(rows, key=itemgetter("ts"))


def _events(rows: Sequence[Row]) -> dict[str | None, list[GroupEvent]]:
    """Return the sorted events of each cluster. ``rows``: rows of ``group_events``."""
    by_cluster: dict[str | None, list[GroupEvent]] = defaultdict(list)
    if isinstance(rows, EventRows):
        for events, cluster, _ in rows.parts:
            by_cluster[cluster] += events
        return by_cluster
    for row in rows:
        by_cluster[row["cluster"]].append(GroupEvent(**{name: row[name] for name in GroupEvent.__slots__}))
    return {cluster: by_key(events) for cluster, events in by_cluster.items()}


def _named(span: FetchSpan, topic: str) -> FetchSpan:
    who = span.conn_id, span.broker, span.client_id, span.host
    return FetchSpan(*who, topic, span.partition, span.begin, span.end)


def of_clients(
    capture_id: str,
    tallies: Iterable[Tally],
    connections: Iterable[Connected],
    clusters: Clusters,
    settings: Settings,
) -> list[Row]:
    """Return the rows of ``findings`` about clients. A client is a client id on one host, in one cluster.

    Args:
        capture_id: id of the capture.
        tallies: counts of the calls of these clients, in any order. All counts of a client must be included.
        connections: all connections of these clients, in any order.
        clusters: clusters of the brokers.
        settings: changed thresholds of detectors, by ``detector.threshold``.
    """
    calls: dict[Client, list[Tally]] = defaultdict(list)
    opened: dict[Client, list[Connected]] = defaultdict(list)
    for tally in tallies:
        calls[client_of(tally, clusters)].append(tally)
    for one in connections:
        opened[client_of(one, clusters)].append(one)
    found: list[Row] = []
    for client in sorted({*calls, *opened}, key=lambda one: (one[0] or "", one[1] or "", one[2])):
        view = client_view(client, calls.get(client, ()), opened.get(client, ()))
        found += of_view(capture_id, view, client[0], settings)
    return tables.FINDINGS.sorted(found)


def client_of(row: Tally | Connected, clusters: Clusters) -> Client:
    """Return the client of a call count or connection."""
    return clusters.of(row.conn_id, row.broker, row.first_ts), row.client_id, row.host


def client_view(
    client: Client,
    tallies: Iterable[Tally],
    connections: Iterable[Connected],
    earlier: Mapping[str, Any] | None = None,
    until: int = 0,
) -> ClientView:
    """Return the view of one client.

    Args:
        client: the client.
        tallies: counts of its calls, in any order. Counts of the same window and API are added.
        connections: its connections, in any order.
        earlier: summaries of rows that a stream has removed, by detector; None if all rows are given.
        until: time before which no later row begins, in microseconds since 1970; 0 if that is unknown.
    """
    totals: dict[tuple[int, int], Tally] = {}
    for tally in sorted(tallies, key=lambda one: (one.window, one.api_key, one.conn_id, one.first_ts)):
        _add(totals, tally)
    opened = sorted(connections, key=lambda one: (one.first_ts, one.conn_id))
    return ClientView(client[1], client[2], list(totals.values()), opened, earlier or {}, until)


def of_view(
    capture_id: str, view: ClientView | TransactionView, cluster: str | None, settings: Settings
) -> Iterator[Row]:
    """Yield the rows of ``findings`` about a client or a transactional id."""
    of = CLIENT if isinstance(view, ClientView) else TRANSACTION
    return rows(_found(of, view, settings), capture_id, None, cluster)


def summaries_of(view: ClientView | TransactionView, settings: Settings) -> dict[str, Any]:
    """Return the summaries of all rows of a client or transactional id, by detector, see ``summaries``."""
    of = CLIENT if isinstance(view, ClientView) else TRANSACTION
    return {
        detector.name: detector.sum_up(view, detector.limits(settings))
        for detector in DETECTORS
        if detector.of == of and detector.sum_up is not None
    }


def _add(totals: dict[tuple[int, int], Tally], tally: Tally) -> None:
    about = tally.window, tally.api_key
    total = totals.get(about)
    if total is None:
        who = tally.conn_id, tally.broker, tally.client_id, tally.host
        total = totals[about] = Tally(*who, *about)
    total.calls += tally.calls
    total.throttle_ms += tally.throttle_ms
    total.first_ts = min(total.first_ts, tally.first_ts)
    total.last_ts = max(total.last_ts, tally.last_ts)
    for code, (count, first, last) in tally.errors.items():
        known = total.errors.setdefault(code, [0, first, last])
        total.errors[code] = [known[0] + count, min(known[1], first), max(known[2], last)]


def of_transactions(capture_id: str, steps: Iterable[Step], clusters: Clusters, settings: Settings) -> list[Row]:
    """Return the rows of ``findings`` about transactional ids. A transactional id is examined in each cluster.

    Args:
        capture_id: id of the capture.
        steps: calls of the producers of these transactional ids, and ends of their connections, in any order. All steps
            of a transactional id must be included.
        clusters: clusters of the brokers.
        settings: changed thresholds of detectors, by ``detector.threshold``.
    """
    by_id: dict[tuple[str | None, str], list[Step]] = defaultdict(list)
    for one in steps:
        by_id[clusters.of(one.conn_id, one.broker, one.ts), one.transactional_id].append(one)
    found: list[Row] = []
    for (cluster, name), own in sorted(by_id.items(), key=lambda item: (item[0][0] or "", item[0][1])):
        found += of_view(capture_id, TransactionView(name, sorted(own, key=order_of)), cluster, settings)
    return tables.FINDINGS.sorted(found)


def _found(of: str, view: Any, settings: Settings) -> Iterator[tuple[Detector, Finding]]:
    for detector in DETECTORS:
        if detector.of == of:
            for one in detector.detect(view, detector.limits(settings)):
                yield detector, one
