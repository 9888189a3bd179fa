"""From references to tables: connections each alone, then groups each alone."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from kwire.analysis import events, usage
from kwire.analysis.clusters import Clusters, Saying
from kwire.analysis.columns import Row, arrow_table, spark_schema
from kwire.analysis.events import GroupEvent
from kwire.analysis.frames import located, problem_row
from kwire.analysis.groups import history
from kwire.analysis.tables import FRAMES, LATENCY
from kwire.analysis.transactions import Transactions
from kwire.analysis.unread import Unread
from kwire.analysis.what_if import comparison, evidence
from kwire.capture.calls.conversation import Row as Segment
from kwire.capture.files.blocks import Problem, Skipped, damage, notes
from kwire.capture.files.file_systems import below
from kwire.spark import bundles
from kwire.spark.bundles import COUNTED, EACH, MET, TOLD, Bundle, Bundler, Counts, Rows, bundle, unbundle
from kwire.spark.following import SEALED, Following, Payloads, reaches
from kwire.spark.parts import Parts
from kwire.spark.source import ORDER

SEGMENT = Segment._fields
ENOUGH = 5_000  # rows that are handed on together
A_TASK = 16 * 1024 * 1024  # bytes of bundles that a task of the second step takes, if groups can be divided so


# --- one connection after the other --------------------------------------------------------------------------------


def by_connection(references: DataFrame, partitions: int) -> DataFrame:
    """References in the order in which connections are followed. No payload is moved: it is read where it lies."""
    return references.drop("path").repartition(partitions, "connection").sortWithinPartitions("connection", *ORDER)


def said(
    ordered: DataFrame, paths: Sequence[str], capture_id: str, staging: str, follow: type[Following] = Following
) -> DataFrame:
    """What connections say, as bundles; frames are written to ``staging``, where what is unpacked is too.

    ``follow``: Witness where groups are replayed.
    """
    return ordered.mapInArrow(partial(_said, list(paths), capture_id, staging, follow), bundles.SPARK)


def frames(ordered: DataFrame, paths: Sequence[str], capture_id: str) -> DataFrame:
    """The table ``frames``."""
    return ordered.mapInArrow(partial(_frames, list(paths), capture_id), spark_schema(FRAMES))


def _said(
    paths: list[str],
    capture_id: str,
    staging: str,
    follow: type[Following],
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    bundler, parts = Bundler(), Parts(staging)
    for found in followed(paths, capture_id, batches, unpacked_in(staging), follow):
        parts.add("frames", found.pop("frames", []))
        if made := list(bundler.bundle_rows(found)):
            yield bundles.batch(made)
    yield bundles.batch([*bundler.finish(), bundle("written", "", parts.close())])


def _frames(paths: list[str], capture_id: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for found in followed(paths, capture_id, batches):
        yield from arrow_table(FRAMES, found.pop("frames", [])).to_batches()
        found.clear()


def unpacked_in(staging: str) -> str:
    """The folder for what is in gzip'd files."""
    return below(staging, "unpacked")


def followed(
    paths: list[str],
    capture_id: str,
    batches: Iterator[pa.RecordBatch],
    unpacked: str | None = None,
    follow: type[Following] = Following,
) -> Iterator[Rows]:
    """The rows that references to the segments of connections give, some at a time; they are to be taken out."""
    payloads = Payloads(paths, unpacked)
    following: Following | None = None
    found: Rows = defaultdict(list)
    try:
        for batch in batches:
            for key, rows in runs(batch):
                if following is None or following.key != key:
                    if following is not None:
                        following.finish(found)
                    following = follow(key, capture_id)
                follow_segments(following, rows, payloads, found)
                if sum(map(len, found.values())) >= ENOUGH:
                    yield found
        if following is not None:
            following.finish(found)
        yield found
    finally:
        payloads.close()


def runs(batch: pa.RecordBatch) -> Iterator[tuple[bytes, pa.RecordBatch]]:
    """The connections in a batch of references, one after the other."""
    keys = batch.column("connection").to_pylist()
    begin = 0
    for n in range(1, len(keys) + 1):
        if n == len(keys) or keys[n] != keys[begin]:
            yield keys[begin], batch.slice(begin, n - begin)
            begin = n


def follow_segments(following: Following, rows: pa.RecordBatch, payloads: Payloads, found: Rows) -> None:
    """Hand the segments of a connection over, and tell what they complete."""
    files = rows.column("file").to_pylist()
    if not following.key:
        columns = (rows.column(name).to_pylist() for name in ("position", "time_us", "problem", "number", "skipped"))
        for file, position, time_us, problem, packets, reason in zip(files, *columns, strict=True):
            path = payloads.paths[int(file)]
            if problem is not None:
                found["damage"].append(Problem(path, position, problem, time_us))
            else:
                found["skipped"].append(((path, reason), packets))
        return
    told = {name: rows.column(name).to_pylist() for name in SEGMENT}
    segments = map(Segment._make, zip(*told.values(), strict=True))
    until = reaches(files, told["position"], told["start"], told["captured"])
    for file, segment, payload, reach in zip(files, segments, rows.column("payload").to_pylist(), until, strict=True):
        path = payloads.paths[int(file)]
        if len(following.key) != SEALED:
            following.frame(segment.upward, payload, segment.time_us, path, segment.position)
        elif payload is not None:
            following.segment(segment, payload, segment.start, path, found)
        else:
            following.segment(segment, payloads.of(file, reach), 0, path, found)
    following.collect_complete(found)


# --- then what connections said, where it meets --------------------------------------------------------------------


@dataclass(slots=True)
class DriverNotes:
    """What the driver has to know of all that was said: little, for it is names."""

    names: dict[str, str] = field(default_factory=dict)  # of topics by id
    commits: set[tuple[str, str, int]] = field(default_factory=set)  # group, topic and partition
    producers: set[tuple[str, str]] = field(default_factory=set)  # group and transactional id that commits to it
    wanted: set[tuple[str, str]] = field(default_factory=set)  # group and topic, of groups that are replayed
    sayings: set[Saying] = field(default_factory=set)
    damage: set[Problem] = field(default_factory=set)
    packets: Counter[tuple[str, str]] = field(default_factory=Counter)  # passed over: by file and reason
    remarks: Counter[str] = field(default_factory=Counter)  # connections not read in full, by the reason
    unread: set[Unread] = field(default_factory=set)
    written: list[str] = field(default_factory=list)  # parts of tables
    size: int = 0  # bytes of bundles

    @classmethod
    def of(cls, found: Iterable[Bundle]) -> DriverNotes:
        told = cls()
        for one in found:
            rows = unbundle(one.rows)
            match one.kind:
                case "names":
                    told.names.update(rows)
                case "commits":
                    told.commits.update(rows)
                case "producers":
                    told.producers.update(rows)
                case "wanted":
                    told.wanted.update(rows)
                case "sayings":
                    told.sayings.update(rows)
                case "damage":
                    told.damage.update(rows)
                case "skipped":
                    for which, packets in rows:
                        told.packets[which] += packets
                case "remarks":
                    told.remarks.update(rows)
                case "unread":
                    told.unread.update(rows)
                case "written":
                    told.written += rows
                case "size":
                    told.size += sum(rows)
        return told

    def __or__(self, other: DriverNotes) -> DriverNotes:
        """All that both say of names, commits, clusters and what was not read."""
        return DriverNotes(
            self.names | other.names,
            self.commits | other.commits,
            self.producers | other.producers,
            sayings=self.sayings | other.sayings,
            unread=self.unread | other.unread,
            size=self.size + other.size,
        )

    @property
    def problems(self) -> list[Problem]:
        """What is damaged, in order."""
        return sorted(self.damage, key=lambda problem: (problem.file, problem.position, problem.reason))

    @property
    def skipped(self) -> list[Skipped]:
        """What was passed over, in order."""
        return [Skipped(file, packets, reason) for (file, reason), packets in sorted(self.packets.items())]

    @property
    def damaged(self) -> list[Problem | Skipped]:
        """What is damaged: places in files, and files whose packets were cut."""
        return damage(self.problems, self.skipped)

    @property
    def notes(self) -> list[str]:
        """What was passed over, a line each."""
        return notes(self.skipped, self.remarks)

    def name(self, topic: str) -> str:
        """The name of a topic, or of the topic with this id; the id where nobody named it."""
        return self.names.get(topic, topic)

    @property
    def groups(self) -> dict[tuple[str, int], list[str]]:
        """The groups that committed an offset of a partition."""
        found: dict[tuple[str, int], set[str]] = defaultdict(set)
        for group, topic, partition in self.commits:
            found[self.name(topic), partition].add(group)
        return {partition: sorted(groups) for partition, groups in found.items()}

    @property
    def by_producer(self) -> dict[str, list[str]]:
        """The groups that a transactional id commits to."""
        found: dict[str, set[str]] = defaultdict(set)
        for group, transactional_id in self.producers:
            found[transactional_id].add(group)
        return {transactional_id: sorted(groups) for transactional_id, groups in found.items()}

    @property
    def replayed(self) -> dict[str, list[str]]:
        """The groups that subscribe to a topic, where groups are replayed."""
        found: dict[str, set[str]] = defaultdict(set)
        for group, topic in self.wanted:
            found[self.name(topic)].add(group)
        return {topic: sorted(groups) for topic, groups in found.items()}


def notes_of(found: DataFrame) -> DriverNotes:
    """What was said for the driver. It is this that makes Spark follow the connections: ``found`` is kept then."""
    rows = found.where(sql.col("kind").isin(*TOLD)).collect()
    return DriverNotes.of(Bundle(row.kind, row.about, bytes(row.rows)) for row in rows)


def written(
    found: DataFrame,
    known: DriverNotes,
    capture_id: str,
    staging: str,
    most: int,
    buckets: Collection[int] | None = None,
    assignor: str | None = None,
) -> list[str]:
    """Write the tables that bundles give to ``staging``; the files, below it. ``most``: tasks; ``assignor``: through
    which groups are replayed.

    With ``buckets`` these alone, each with files of its own, and frames and connections, marked as what they are about.
    """
    groups, by_producer = known.groups, known.by_producer
    if buckets is not None:
        groups = {partition: _in_buckets(some, buckets) for partition, some in groups.items()}
        by_producer = {producer: _in_buckets(some, buckets) for producer, some in by_producer.items()}
    found = found.select("kind", "about", "rows")
    others = found.where(~sql.col("kind").isin(*MET, *TOLD))
    if any(groups.values()) or known.wanted:
        meet = partial(_meet, known.names, groups, known.replayed, by_producer)
        others = others.unionByName(found.where(sql.col("kind").isin(*MET)).mapInArrow(meet, bundles.SPARK))
    tasks = min(known.size // A_TASK + 1, most)
    met = others.repartition(tasks, "about") if tasks > 1 else others.coalesce(1)
    fold = partial(
        _fold,
        Folding(capture_id, known.names, Clusters(known.sayings), frozenset(known.unread), assignor),
        staging,
        buckets is not None,
    )
    made = met.sortWithinPartitions("about", "kind").mapInArrow(fold, bundles.SPARK)
    return DriverNotes.of(Bundle(row.kind, row.about, bytes(row.rows)) for row in made.collect()).written


def remarked(known: DriverNotes, capture_id: str, staging: str, mark: str = "") -> list[str]:
    """Write what was said of captures to the table ``problems``; the files, below ``staging``."""
    parts = Parts(staging)
    remarks: list[Problem | Skipped] = [*known.problems, *known.skipped]
    rows = (problem_row(one, capture_id) for one in remarks)
    parts.add("problems", [row for row in rows if row is not None], mark)
    return parts.close()


def _in_buckets(groups: Iterable[str], buckets: Collection[int]) -> list[str]:
    return [one for one in groups if bundles.bucket_of(bundles.about_group(one)) in buckets]


def _meet(
    names: Mapping[str, str],
    groups: Mapping[tuple[str, int], list[str]],
    replayed: Mapping[str, list[str]],
    by_producer: Mapping[str, list[str]],
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Ends of partitions, to each of the groups that committed offsets of them; sizes of topics, to subscribers; what
    ended transactions, to the groups that they commit to.
    """
    for batch in batches:
        found: Rows = defaultdict(list)
        sizes: Rows = defaultdict(list)
        ended: Rows = defaultdict(list)
        for one in bundles.bundles_of(batch):
            if one.kind == "sizes":
                for size in unbundle(one.rows):
                    for group in replayed.get(names.get(size.topic, size.topic), ()):
                        sizes[group].append(size)
                continue
            if one.kind == "endings":
                for ending in bundles.endings_of(unbundle(one.rows)):
                    for group in by_producer.get(ending.transactional_id, ()):
                        ended[group].append(ending)
                continue
            for mark in bundles.marks_of(unbundle(one.rows)):
                for group in groups.get((names.get(mark.topic, mark.topic), mark.partition), ()):
                    found[group].append(mark)
        made = [bundles.bundle_of_marks(bundles.about_group(group), marks) for group, marks in found.items()]
        made += [bundle("sizes", bundles.about_group(group), some) for group, some in sizes.items()]
        made += [bundles.bundle_of_endings(bundles.about_group(group), some) for group, some in ended.items()]
        if made:
            yield bundles.batch(made)


def _fold(folding: Folding, staging: str, marked: bool, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    parts = Parts(staging)
    about = ""
    met: Rows = defaultdict(list)

    def write() -> None:
        mark = bundles.bucket_mark(bundles.bucket_of(about)) if marked else ""
        for name, rows in folding.rows(met).items():
            parts.add(name, rows, mark)
        met.clear()

    for one in (one for batch in batches for one in bundles.bundles_of(batch)):
        if one.about != about:
            write()
            about = one.about
        if one.kind in EACH:
            parts.add(one.kind, folding.each(one.kind, unbundle(one.rows)), about if marked else "")
        else:
            met[one.kind] += unbundle(one.rows)
    write()
    yield bundles.batch([bundle("written", "", parts.close())])


@dataclass(frozen=True, slots=True)
class Folding:
    """Makes rows of tables of what met. ``names``: of topics by id; ``assignor``: through which groups are replayed."""

    capture_id: str
    names: Mapping[str, str]
    clusters: Clusters
    unread: frozenset[Unread] = frozenset()
    assignor: str | None = None

    def each(self, kind: str, rows: list[Row]) -> list[Row]:
        """Rows of a kind in EACH."""
        return [located(row, self.clusters) for row in rows] if kind == "connections" else rows

    def rows(self, met: Rows) -> Mapping[str, Iterable[Row]]:
        """All of one group, all counts of a table, or all waits of a minute."""
        if happened := met.get("events"):
            by_group: dict[str, list[GroupEvent]] = defaultdict(list)
            for event in bundles.events_of(happened):
                by_group[event.group_id].append(events.name_topics(event, self.names))
            ends = history.Ends(bundles.marks_of(met.get("marks", [])), self.names, self.clusters)
            ended = Transactions(bundles.endings_of(met.get("endings", [])), self.clusters)
            found: dict[str, list[Row]] = defaultdict(list)
            known = evidence.Evidence(met.get("subscribed", []), met.get("sizes", []), self.names, self.clusters)
            for group, named in by_group.items():
                made_of_group = history.fold(self.capture_id, group, named, ends, self.clusters, ended, self.unread)
                if self.assignor is not None:
                    made_of_group |= comparison.fold(self.assignor, made_of_group, known)
                for name, rows in made_of_group.items():
                    found[name] += rows
            return found
        if waits := met.get("waits"):
            return {LATENCY.name: self._latency(waits)}
        if refused := met.get("errors"):
            return {"errors": usage.errors(refused, self.names, self.clusters)}
        made: dict[str, list[Row]] = {}
        for name in COUNTED:
            if name in met:
                counts = Counts(name)
                counts.add(met[name])
                made[name] = counts.taken()
        return made

    def _latency(self, waits: Iterable[tuple[Any, ...]]) -> list[Row]:
        apart: dict[tuple[int, int, int, str], list[int]] = defaultdict(list)
        for *about, us in waits:
            apart[tuple(about)] += us
        return [usage.latency_row(self.capture_id, *about, us) for about, us in apart.items()]
