"""Rows of tables from the bundles with one key."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

from kwire.analysis import events, usage
from kwire.analysis.clusters import Clusters
from kwire.analysis.columns import Row
from kwire.analysis.events import GroupEvent
from kwire.analysis.findings import fold as findings
from kwire.analysis.frames import located
from kwire.analysis.groups import history, slices
from kwire.analysis.tables import LATENCY
from kwire.analysis.transactions import Transactions
from kwire.analysis.unread import Unread
from kwire.analysis.what_if import comparison, evidence
from kwire.lazy_dataclass import dataclass
from kwire.spark import bundles
from kwire.spark.bundles import COUNTED, Counts, Rows


@dataclass(frozen=True, slots=True)
class TableBuilder:
    """A converter of the bundles with one key, such as the key of a consumer group, to rows of tables.

    Attributes:
        capture_id: name of the capture.
        names: topic names; a key is the text ``id:`` followed by the topic id.
        clusters: the cluster of each broker.
        unread: periods of connections in which calls may be missing.
        assignor: name of the assignor with which groups are replayed; None for no replay.
        settings: changed thresholds of detectors, by ``detector.threshold``; empty for all defaults.
    """

    capture_id: str
    names: Mapping[str, str]
    clusters: Clusters
    unread: frozenset[Unread] = frozenset()
    assignor: str | None = None
    settings: Mapping[str, float] = field(default_factory=dict)

    def connection_rows(self, kind: str, rows: list[Row]) -> list[Row]:
        """Return rows that depend on one connection only, ready to be written.

        Rows of the table ``connections`` get values in the columns ``cluster`` and ``node_id``; all other rows are
        returned unchanged.

        Args:
            kind: name of the table, one of PER_CONNECTION.
            rows: rows from bundles of this kind.
        """
        return [located(row, self.clusters) for row in rows] if kind == "connections" else rows

    def rows(self, by_kind: Rows) -> Mapping[str, Iterable[Row]]:
        """Return the rows of tables for one key, by table name.

        The key is a consumer group, a client, a transactional id, a minute of latencies, a group of errors, or a part
        of a count table.

        Args:
            by_kind: decoded rows of the bundles with this key, by kind.

        Raises: ValueError for a kind that is not in bundles.OF_TABLES.
        """
        bundles.check_kinds(by_kind, bundles.OF_TABLES)
        if "events" in by_kind:
            ends, spans = self._ends(by_kind), by_kind.get("spans", [])
            group_rows: dict[str, list[Row]] = defaultdict(list)
            known = evidence.Evidence(
                by_kind.get("subscribed", []), by_kind.get("sizes", []), self.names, self.clusters
            )
            for group, tables in self._histories(by_kind, "events", ends).items():
                tables["findings"] = findings.of_group(
                    self.capture_id, group, tables, ends, spans, self.names, self.clusters, self.settings
                )
                if self.assignor is not None:
                    tables |= comparison.fold(self.assignor, tables, known)
                for name, rows in tables.items():
                    group_rows[name] += rows
            return group_rows
        if steps := by_kind.get("steps"):
            return {"findings": findings.of_transactions(self.capture_id, steps, self.clusters, self.settings)}
        if "tallies" in by_kind or "connected" in by_kind:
            seen = by_kind.get("tallies", []), by_kind.get("connected", [])
            return {"findings": findings.of_clients(self.capture_id, *seen, self.clusters, self.settings)}
        if waits := by_kind.get("waits"):
            return {LATENCY.name: self._latency(waits)}
        if refused := by_kind.get("errors"):
            return {"errors": usage.errors(refused, self.names, self.clusters)}
        counted: dict[str, list[Row]] = {}
        for name in COUNTED:
            if name in by_kind:
                counts = Counts(name)
                counts.add(by_kind[name])
                counted[name] = counts.drain()
        return counted

    def slice_rows(self, by_kind: Rows) -> dict[str, dict[str, Sequence[Row]]]:
        """Return the rows of ``history.fold`` for one slice of a large consumer group, by group id and table name.

        Args:
            by_kind: decoded rows of the bundles of this slice, by kind.
        """
        return self._histories(by_kind, "sliced", self._ends(by_kind))

    def findings(self, by_kind: Rows) -> list[Row]:
        """Return the findings of a large consumer group.

        Args:
            by_kind: data of the group by kind: the rows of all slices, the end offsets of the partitions that the group
                commits, and the periods in which these partitions were fetched.
        """
        of_slices: dict[str, list[dict[str, Sequence[Row]]]] = defaultdict(list)
        for group, tables in by_kind.get("rows", []):
            of_slices[group].append(tables)
        ends, spans = self._ends(by_kind), by_kind.get("spans", [])
        return [
            row
            for group, some in of_slices.items()
            for row in findings.of_group(
                self.capture_id, group, slices.merged(some), ends, spans, self.names, self.clusters, self.settings
            )
        ]

    def _ends(self, by_kind: Rows) -> history.Ends:
        return history.Ends(bundles.marks_of(by_kind.get("marks", [])), self.names, self.clusters)

    def _histories(self, by_kind: Rows, kind: str, ends: history.Ends) -> dict[str, dict[str, Sequence[Row]]]:
        by_group: dict[str, list[GroupEvent]] = defaultdict(list)
        for event in bundles.events_of(by_kind[kind]):
            by_group[event.group_id].append(events.name_topics(event, self.names))
        ended = Transactions(bundles.endings_of(by_kind.get("endings", [])), self.clusters)
        return {
            group: history.fold(self.capture_id, group, named, ends, self.clusters, ended, self.unread)
            for group, named in by_group.items()
        }

    def _latency(self, waits: Iterable[tuple[Any, ...]]) -> list[Row]:
        apart: dict[tuple[int, int, int, str], list[int]] = defaultdict(list)
        for *about, us in waits:
            apart[tuple(about)] += us
        return [usage.latency_row(self.capture_id, *about, us) for about, us in apart.items()]
