"""The second stage of a stream: tables of groups and counts, from the rows of one micro-batch and stored states.

Groups and counts are divided into buckets. For each bucket, a file has the state of its keys: of a group the events
that later events may still need, of a count the sums so far. A micro-batch adds its rows to the state, and writes

- current rows, which later rows may change: they replace the current rows of the bucket, and
- final rows, which are added.

The state of a group also has the evidence of its removed events, and that of a client or transactional id has summaries
of its removed calls. From these, findings are derived in each micro-batch. A bucket is rebuilt from all its rows when a
row arrives that is older than the final or removed rows, when a cluster changes, in the cases of ``stale_buckets``, and
at the end of the stream. This module does not depend on Spark.
"""

from __future__ import annotations

import posixpath
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from kwire.analysis import events, usage
from kwire.analysis.clusters import Clusters
from kwire.analysis.columns import Row
from kwire.analysis.events import GroupEvent
from kwire.analysis.findings import fold as findings
from kwire.analysis.findings.evidence import Evidence
from kwire.analysis.findings.observations import Connected, Step, Tally
from kwire.analysis.groups import history
from kwire.analysis.groups.thinning import Pauses, settle
from kwire.analysis.tables import LATENCY
from kwire.analysis.transactions import Transactions
from kwire.analysis.unread import Unread
from kwire.capture.files.file_systems import below, file_system
from kwire.spark import bundles, plain
from kwire.spark.bundles import COUNTED, Counts, Rows
from kwire.spark.subjects import Calls, LateRowError, Subject

SETTLED_US = 360_000_000  # microseconds; longer than the rebalance timeout of clients (5 minutes)
Tables = Mapping[str, Iterable[Row]]


@dataclass(slots=True)
class GroupState:
    """The state of the groups with one group id, in all clusters.

    Attributes:
        events: events that later events may need, as values of the fields.
        pauses: periods from which routine events of members were removed, by member id.
        until: time up to which events were removed, in microseconds since 1970; -1 if none was removed.
        evidence: what detectors need of the events up to ``until``, by cluster.
    """

    events: list[tuple[Any, ...]] = field(default_factory=list)
    pauses: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    until: int = -1
    evidence: dict[str | None, Evidence] = field(default_factory=dict)


@dataclass(slots=True)
class KeyState:
    """The state of one key of a bucket.

    Attributes:
        rows: rows by kind: high watermarks, fetches and ends of transactions of a group, latencies of a minute, sums of
            counts and errors.
        groups: states of the groups with this key, by group id.
        subjects: states of clients by cluster, client id and host; of transactional ids by cluster and id.
        findings: findings about these clients or transactional ids.
    """

    rows: dict[str, list[Any]] = field(default_factory=dict)
    groups: dict[str, GroupState] = field(default_factory=dict)
    subjects: dict[Any, Subject] = field(default_factory=dict)
    findings: list[Row] = field(default_factory=list)


@dataclass(slots=True)
class BucketState:
    """The state of a bucket.

    Attributes:
        keys: states by key.
        minute: start of the latest minute of which all latencies are final, in microseconds since 1970; -1 if none.
        settings: changed thresholds of detectors when the bucket was last rebuilt.
    """

    keys: dict[str, KeyState] = field(default_factory=dict)
    minute: int = -1
    settings: dict[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class Buckets:
    """The stored states of all buckets after a micro-batch.

    Attributes:
        versions: name of the stored version of each bucket's state.
        replaced: states that the micro-batch has replaced: bucket and name of the version. The next one deletes them.
        due: buckets that the next micro-batch must rebuild.
        stale: buckets that have changed since they were last rebuilt.
    """

    versions: dict[int, str] = field(default_factory=dict)
    replaced: list[tuple[int, str]] = field(default_factory=list)
    due: set[int] = field(default_factory=set)
    stale: set[int] = field(default_factory=set)

    def after(self, updated: Collection[int], version: str, rebuilt: Collection[int]) -> Buckets:
        """Return the states after an update of buckets.

        Args:
            updated: the updated buckets.
            version: name of the new version of their states.
            rebuilt: buckets that the update has rebuilt.
        """
        return Buckets(
            self.versions | dict.fromkeys(updated, version),
            [(bucket, self.versions[bucket]) for bucket in updated if bucket in self.versions],
            self.due - set(updated),
            (self.stale | set(updated)) - set(rebuilt),
        )


@dataclass(slots=True)
class Outcome:
    """The result of a micro-batch for one bucket.

    Attributes:
        state: state after the micro-batch.
        current: rows that later rows may change: pairs of table name and rows.
        final: rows that do not change any more: pairs of table name and rows.
    """

    state: BucketState
    current: list[tuple[str, Iterable[Row]]] = field(default_factory=list)
    final: list[tuple[str, Iterable[Row]]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Increments:
    """A converter of the rows of a micro-batch to rows of tables, with the states of earlier micro-batches.

    Attributes:
        capture_id: name of the capture.
        names: topic names; a key is the text ``id:`` followed by the topic id.
        clusters: the cluster of each broker.
        unread: periods of connections in which calls may be missing.
        settings: changed thresholds of detectors, by ``detector.threshold``; empty for all defaults.
        settled_us: age of events, in microseconds, after which rows about them may become final.
    """

    capture_id: str
    names: Mapping[str, str]
    clusters: Clusters
    unread: frozenset[Unread] = frozenset()
    settings: Mapping[str, float] = field(default_factory=dict)
    settled_us: int = SETTLED_US

    def bucket(self, state: BucketState | None, fresh: Mapping[str, Rows], pending: Mapping[str, Rows]) -> Outcome:
        """Return the rows of a bucket after a micro-batch, and its new state.

        Args:
            state: state before the micro-batch, which is updated. None to rebuild the bucket: then ``fresh`` has all
                rows so far.
            fresh: rows that are new and do not change, by key and kind.
            pending: rows of open connections, which later micro-batches replace, by key and kind.

        Raises: LateRowError if a row is older than the final rows of the bucket, if the thresholds have changed, or if
            an earlier release of kwire has stored the state. ValueError for a kind that is not in bundles.OF_TABLES.
        """
        state = state or BucketState(settings=dict(self.settings))
        if getattr(state, "settings", None) != self.settings:
            raise LateRowError
        outcome = Outcome(state)
        minute = self._settled_minute(state, fresh)
        for about in sorted({*state.keys, *fresh, *pending}):
            own, new, more = state.keys.get(about) or KeyState(), fresh.get(about, {}), pending.get(about, {})
            bundles.check_kinds((*new, *more), bundles.OF_TABLES)
            if about.startswith("group "):
                self._group(own, new, more, outcome)
            elif about.startswith("minute "):
                if not self._latency(own, new, more, outcome, minute):
                    state.keys.pop(about, None)
                    continue
            elif about.startswith("client "):
                self._client(own, new, more, outcome)
            elif about.startswith("transactions "):
                self._transactions(own, new, more, outcome)
            else:
                self._counts(own, new, more, outcome)
            state.keys[about] = own
        state.minute = minute
        return outcome

    # --- groups ---

    def _group(self, own: KeyState, new: Rows, more: Rows, outcome: Outcome) -> None:
        """Add the rows of all groups with one key to ``outcome``, and update their state.

        Args:
            own: state of the key, which is updated.
            new: new rows by kind.
            more: rows of open connections by kind.
            outcome: result of the bucket.

        Raises: LateRowError if a new row is older than the final rows of its group.
        """
        by_group: dict[str, Rows] = {}  # events by group id: new ones, and those of open connections
        for which, rows in (("new", new), ("more", more)):
            for values in rows.get("events", ()):
                by_group.setdefault(values[bundles.OF_GROUP], defaultdict(list))[which].append(values)
        oldest = max((one.until for one in own.groups.values()), default=-1)
        if any(row[0] <= oldest for kind in ("marks", "endings") for row in new.get(kind, ())):
            raise LateRowError
        known = {kind: [*own.rows.get(kind, ()), *new.get(kind, ())] for kind in ("marks", "spans", "endings")}
        ends = history.Ends(bundles.marks_of([*known["marks"], *more.get("marks", ())]), self.names, self.clusters)
        ended = Transactions(bundles.endings_of([*known["endings"], *more.get("endings", ())]), self.clusters)
        spans = [*known["spans"], *more.get("spans", ())]
        for group_id in sorted({*own.groups, *by_group}):
            group = own.groups.setdefault(group_id, GroupState())
            added = by_group.get(group_id, {})
            if any(values[0] <= group.until for values in added.get("new", ())):
                raise LateRowError
            self._history(group_id, group, added, (ends, ended, spans), outcome)
            if not group.events:
                del own.groups[group_id]
        until = min((one.until for one in own.groups.values()), default=-1)
        own.rows = {
            "marks": self._needed_marks(known["marks"], until, own.groups.values()),
            "spans": [span for span in known["spans"] if span.end > until],
            "endings": known["endings"],
        }

    def _history(
        self,
        group_id: str,
        group: GroupState,
        added: Mapping[str, list[Any]],
        known: tuple[history.Ends, Transactions, Sequence[Any]],
        outcome: Outcome,
    ) -> None:
        """Add the rows of one group id to ``outcome``, and update its state.

        Args:
            group_id: the group id.
            group: state of the group id, which is updated.
            added: values of the new events, and of the events of open connections.
            known: end offsets, ends of transactions, and periods in which partitions were fetched.
            outcome: result of the bucket.

        Raises: LateRowError if an earlier commit in a transaction has become a successful one.
        """
        ends, ended, spans = known

        def fold(own: Sequence[GroupEvent], pauses: Pauses) -> dict[str, Sequence[Row]]:
            if not own:
                return {name: [] for name in history.FILLED}
            return history.fold(self.capture_id, group_id, own, ends, self.clusters, ended, self.unread, pauses)

        values = [*group.events, *added.get("new", ())]
        named = [events.name_topics(event, self.names) for event in bundles.events_of(values)]
        order = sorted(range(len(named)), key=lambda number: named[number].key)
        pending = [events.name_topics(event, self.names) for event in bundles.events_of(added.get("more", ()))]
        ordered = [named[number] for number in order]
        until = group.until
        if ordered:
            settled = min(ordered[-1].ts - self.settled_us, *(event.ts - 1 for event in pending), 2**62)
            until = max(settled, until)
        done = settle(fold, ordered, until, group.pauses, pending)
        group.pauses = {member: list(periods) for member, periods in done.pauses.items()}
        group.until = group.until if all(done.kept) else until
        group.events = [values[number] for number, needed in zip(order, done.kept, strict=True) if needed]
        views = findings.views_of(group_id, done.whole, ends, spans, self.names, self.clusters, group.evidence)
        if not all(view.earlier.is_valid_for(view) for view in views.values()):
            raise LateRowError
        rows = findings.of_views(self.capture_id, views, self.settings)
        group.evidence = {cluster: view.earlier.after(view, group.until) for cluster, view in views.items()}
        outcome.final += done.final.items()
        outcome.current += [*done.current.items(), ("findings", rows)]

    def _needed_marks(
        self, marks: Iterable[tuple[Any, ...]], until: int, groups: Iterable[GroupState]
    ) -> list[tuple[Any, ...]]:
        """Return the high watermarks that commits need.

        These are the last one up to each kept commit, the last one up to ``until``, and all later ones.

        Args:
            marks: high watermarks as values.
            until: time up to which events were removed, in microseconds since 1970.
            groups: states of the groups, with the commits that are kept.
        """
        times: dict[tuple[str, int], set[int]] = defaultdict(set)
        for group in groups:
            for event in bundles.events_of(group.events):
                if event.topic is not None and event.partition is not None and event.ts < until:
                    times[self.names.get(event.topic, event.topic), event.partition].add(event.ts)
        by_place: dict[tuple[str | None, str, int], list[tuple[int, int, tuple[Any, ...]]]] = defaultdict(list)
        needed = []
        for values, mark in zip(marks := list(marks), bundles.marks_of(marks), strict=True):
            if mark.ts > until:
                needed.append(values)
                continue
            cluster = self.clusters.id_of(mark.conn_id, mark.broker, mark.ts)
            by_place[cluster, self.names.get(mark.topic, mark.topic), mark.partition].append(
                (mark.ts, mark.offset, values)
            )
        for (_, topic, partition), some in by_place.items():
            some.sort()
            places = {bisect_right(some, ts, key=itemgetter(0)) for ts in (*times[topic, partition], until)} - {0}
            needed += [some[place - 1][2] for place in sorted(places)]
        return needed

    # --- counts ---

    def _settled_minute(self, state: BucketState, fresh: Mapping[str, Rows]) -> int:
        """Return the start of the latest minute whose latencies are final, in microseconds since 1970.

        The result is negative if no such minute exists.

        Raises: LateRowError if a new latency is in a minute whose latencies are final.
        """
        minutes = [wait[0] for rows in fresh.values() for wait in rows.get("waits", ())]
        if any(minute <= state.minute for minute in minutes):
            raise LateRowError
        latest = max(minutes, default=-1) - self.settled_us - usage.BUCKET
        return max(state.minute, latest)

    def _latency(self, own: KeyState, new: Rows, more: Rows, outcome: Outcome, minute: int) -> bool:
        """Add the latencies of one minute to ``outcome``. Return whether later rows may change them."""
        waits = [*own.rows.get("waits", ()), *new.get("waits", ())]
        latencies: dict[tuple[int, int, int, str], list[int]] = defaultdict(list)
        for *about, us in [*waits, *more.get("waits", ())]:
            start, key, version, broker = about
            latencies[start, key, version, broker] += us
        rows = [usage.latency_row(self.capture_id, *about, us) for about, us in latencies.items()]
        is_final = not more.get("waits") and all(about[0] <= minute for about in latencies)
        (outcome.final if is_final else outcome.current).append((LATENCY.name, rows))
        own.rows["waits"] = waits
        return not is_final

    # --- clients and transactional ids ---

    def _client(self, own: KeyState, new: Rows, more: Rows, outcome: Outcome) -> None:
        """Add the findings about clients to ``outcome``, and update their states.

        Raises: LateRowError if a row is older than removed rows.
        """
        if new or more:
            fresh, pending = (self._by_client(rows) for rows in (new, more))
            own.findings = []
            for client in {*own.subjects, *fresh, *pending}:
                state = own.subjects.setdefault(client, Subject())
                calls = fresh.get(client, Calls()), pending.get(client, Calls())
                view = state.add_calls(client, *calls, self.settings, self.settled_us)
                own.findings += findings.of_view(self.capture_id, view, client[0], self.settings)
        outcome.current.append(("findings", own.findings))

    def _by_client(self, rows: Rows) -> dict[findings.Client, Calls]:
        apart: dict[findings.Client, tuple[list[Tally], list[Connected]]] = defaultdict(lambda: ([], []))
        for kind, number in (("tallies", 0), ("connected", 1)):
            for one in rows.get(kind, ()):
                apart[findings.client_of(one, self.clusters)][number].append(one)
        return {client: Calls(*some) for client, some in apart.items()}

    def _by_transactional_id(self, rows: Rows) -> dict[tuple[str | None, str], list[Step]]:
        apart: dict[tuple[str | None, str], list[Step]] = defaultdict(list)
        for step in rows.get("steps", ()):
            apart[self.clusters.of(step.conn_id, step.broker, step.ts), step.transactional_id].append(step)
        return apart

    def _transactions(self, own: KeyState, new: Rows, more: Rows, outcome: Outcome) -> None:
        """Add the findings about transactional ids to ``outcome``, and update their states.

        Raises: LateRowError if a step is older than removed steps.
        """
        if new or more:
            fresh, pending = (self._by_transactional_id(rows) for rows in (new, more))
            own.findings = []
            for about in {*own.subjects, *fresh, *pending}:
                state, (cluster, name) = own.subjects.setdefault(about, Subject()), about
                steps = fresh.get(about, []), pending.get(about, [])
                view = state.add_steps(name, *steps, self.settings, self.settled_us)
                own.findings += findings.of_view(self.capture_id, view, cluster, self.settings)
        outcome.current.append(("findings", own.findings))

    # --- sums ---

    def _counts(self, own: KeyState, new: Rows, more: Rows, outcome: Outcome) -> None:
        """Add the sums of count tables and of errors to ``outcome``, and update the stored sums."""
        for name in COUNTED:
            if any(rows.get(name) for rows in (own.rows, new, more)):
                counts = Counts(name)
                for rows in (own.rows, new):
                    counts.add(rows.get(name, ()))
                own.rows[name] = counts.drain()
                for rows in (own.rows, more):
                    counts.add(rows.get(name, ()))
                outcome.current.append((name, counts.drain()))
        if any(rows.get("errors") for rows in (own.rows, new, more)):
            own.rows["errors"] = self._added_errors([*own.rows.get("errors", ()), *new.get("errors", ())])
            every = [dict(row) for row in (*own.rows["errors"], *more.get("errors", ()))]
            outcome.current.append(("errors", usage.errors(every, self.names, self.clusters)))

    def _added_errors(self, rows: Iterable[Row]) -> list[Row]:
        """Sum rows of ``Usage.refused``: return one row for each error in each cluster."""
        sums: dict[tuple[Any, ...], Row] = {}
        for row in rows:
            cluster = self.clusters.of(row["conn_id"], row["broker"], row["first_ts"])
            about = cluster, *(value for name, value in row.items() if name not in _SUMMED)
            if about not in sums:
                sums[about] = dict(row)
                continue
            total = sums[about]
            total["count"] += row["count"]
            total["last_ts"] = max(total["last_ts"], row["last_ts"])
            if row["first_ts"] < total["first_ts"]:
                total |= {name: row[name] for name in ("first_ts", "conn_id", "broker")}
        return list(sums.values())


_SUMMED = ("count", "first_ts", "last_ts", "conn_id", "broker")


def final_mark(bucket: int, number: int) -> str:
    """Return the file mark, such as ``s07.000012``, of the final rows of a bucket in a micro-batch.

    The part before the point is the file mark of all final rows of the bucket.
    """
    return f"{final_marks(bucket)}.{number:06}"


def final_marks(bucket: int) -> str:
    """Return the text, such as ``s07``, with which the file marks of all final rows of a bucket begin."""
    return f"s{bucket:02}"


def state_path(folder: str, version: str, bucket: int) -> str:
    """Return the path of the file with the state of a bucket.

    Args:
        folder: folder of all states.
        version: name of the version of the state.
        bucket: number of the bucket.
    """
    return below(folder, posixpath.join(version, bundles.bucket_mark(bucket)))


def load_state(path: str) -> BucketState:
    """Return a stored state. Raises: plain.PlainError, OSError."""
    files, inside = file_system(path)
    with files.open_input_file(inside) as raw:
        loaded: BucketState = plain.loads(raw.read())
        return loaded


def save_state(path: str, state: BucketState) -> int:
    """Write the state of a bucket to a file; return the number of bytes."""
    files, inside = file_system(path)
    files.create_dir(inside.rpartition("/")[0], recursive=True)
    data = plain.dumps(state)
    with files.open_output_stream(inside) as raw:
        raw.write(data)
    return len(data)


def delete_state(path: str) -> None:
    """Delete the file with the state of a bucket, if it exists."""
    files, inside = file_system(path)
    if files.get_file_info(inside).type.name == "File":
        files.delete_file(inside)


def runs(items: Iterable[tuple[int, str, str, list[Any]]]) -> Iterator[tuple[int, dict[str, Rows]]]:
    """Yield for each bucket its rows, by key and kind. Rows of the same bucket must be consecutive.

    Args:
        items: bucket, key, kind and rows.
    """
    number: int | None = None
    by_key: dict[str, Rows] = defaultdict(lambda: defaultdict(list))
    for bucket, about, kind, rows in items:
        if bucket != number and number is not None:
            yield number, by_key
            by_key = defaultdict(lambda: defaultdict(list))
        number = bucket
        by_key[about][kind] += rows
    if number is not None:
        yield number, by_key
