"""What the driver of a job needs to know of the first stage."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import field
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from kwire.analysis.clusters import ClusterStatement
from kwire.analysis.tables import FRAMES
from kwire.analysis.unread import Unread
from kwire.capture.files.blocks import Problem, Skipped, damage, notes
from kwire.lazy_dataclass import dataclass
from kwire.spark import bundles
from kwire.spark.bundles import SUMMARY_KINDS, Bundle, unbundle


@dataclass(slots=True)
class CaptureSummary:
    """The results of the first stage that the Spark driver needs.

    Attributes:
        names: topic names; a key is the text ``id:`` followed by the topic id.
        commits: consumer group ids, each with a topic and a partition for which the group commits offsets.
        producers: consumer group ids, each with the transactional id of a producer that commits offsets for the group.
        wanted: ids of replayed groups, each with a topic to which the group subscribes.
        statements: cluster ids and broker addresses in responses.
        damage: damaged positions in files.
        packets: numbers of skipped packets, by file and reason.
        remarks: numbers of connections that were not decoded completely, by reason.
        unread: periods of connections in which calls may be missing.
        written: paths of the written files, relative to the staging folder.
        size: bytes of the bundles.
        large: bytes of the events of consumer groups that may be large, by the key of the group.
        ids: topic ids, each with the number of a bucket that contains rows with the id; empty except in a stream.
        sliced: number of slices: groups of consecutive calls of a connection, which the first stage does not decode.
        sliced_size: bytes of the frames in all slices.
    """

    names: dict[str, str] = field(default_factory=dict)
    commits: set[tuple[str, str, int]] = field(default_factory=set)
    producers: set[tuple[str, str]] = field(default_factory=set)
    wanted: set[tuple[str, str]] = field(default_factory=set)
    statements: set[ClusterStatement] = field(default_factory=set)
    damage: set[Problem] = field(default_factory=set)
    packets: Counter[tuple[str, str]] = field(default_factory=Counter)
    remarks: Counter[str] = field(default_factory=Counter)
    unread: set[Unread] = field(default_factory=set)
    written: list[str] = field(default_factory=list)
    size: int = 0
    large: Counter[str] = field(default_factory=Counter)
    ids: set[tuple[str, int]] = field(default_factory=set)
    sliced: int = 0
    sliced_size: int = 0

    @classmethod
    def of(cls, bundles: Iterable[Bundle]) -> CaptureSummary:
        summary = cls()
        for one in bundles:
            rows = unbundle(one.rows)
            match one.kind:
                case "names":
                    summary.names.update(rows)
                case "commits":
                    summary.commits.update(rows)
                case "producers":
                    summary.producers.update(rows)
                case "wanted":
                    summary.wanted.update(rows)
                case "statements":
                    summary.statements.update(rows)
                case "damage":
                    summary.damage.update(rows)
                case "skipped":
                    for which, packets in rows:
                        summary.packets[which] += packets
                case "remarks":
                    summary.remarks.update(rows)
                case "unread":
                    summary.unread.update(rows)
                case "written":
                    summary.written += rows
                case "large":
                    for about, size in rows:
                        summary.large[about] += size
                case "ids":
                    summary.ids.update(rows)
                case "slices":
                    for number, size in rows:
                        summary.sliced += number
                        summary.sliced_size += size
                case "size":
                    summary.size += sum(rows)
        return summary

    def __or__(self, other: CaptureSummary) -> CaptureSummary:
        """Return a summary of the files of both summaries.

        Only the attributes that a stream needs are set: ``names``, ``commits``, ``producers``, ``statements``,
        ``unread``, ``ids`` and ``size``.
        """
        return CaptureSummary(
            self.names | other.names,
            self.commits | other.commits,
            self.producers | other.producers,
            statements=self.statements | other.statements,
            unread=self.unread | other.unread,
            ids=self.ids | other.ids,
            size=self.size + other.size,
        )

    def slices(self, size: int) -> dict[str, int]:
        """Return the number of slices of each large consumer group, by the key of the group from ``about_group``.

        A group is large if its events have more than twice ``size`` bytes. It has at most MOST_SLICES slices.

        ``size``: bytes of the events in one slice.
        """
        return {
            about: min(-(-events // size), bundles.MOST_SLICES)
            for about, events in self.large.items()
            if events > 2 * size
        }

    @property
    def problems(self) -> list[Problem]:
        """The damaged positions in files, ordered by file and position."""
        return sorted(self.damage, key=lambda problem: (problem.file, problem.position, problem.reason))

    @property
    def skipped(self) -> list[Skipped]:
        """The numbers of skipped packets, one for each file and reason, ordered by file and reason."""
        return [Skipped(file, packets, reason) for (file, reason), packets in sorted(self.packets.items())]

    @property
    def damaged(self) -> list[Problem | Skipped]:
        """The damaged positions in files, and the files with packets that were truncated or lost at an interface."""
        return damage(self.problems, self.skipped)

    @property
    def is_empty(self) -> bool:
        """Whether the captures have no frame, no damage, no skipped packet and no connection with a remark."""
        has_frames = any(place.startswith(f"{FRAMES.name}/") for place in self.written)
        return not (has_frames or self.problems or self.skipped or self.remarks)

    @property
    def notes(self) -> list[str]:
        """Lines for the user about skipped packets and about connections that were not decoded completely."""
        return notes(self.skipped, self.remarks)

    def name(self, topic: str) -> str:
        """Return the name of a topic.

        Args:
            topic: name of the topic, or the text ``id:`` followed by the topic id. A name is returned unchanged, and so
                is a topic id whose name is unknown.
        """
        return self.names.get(topic, topic)

    @property
    def groups(self) -> dict[tuple[str, int], list[str]]:
        """The ids of the consumer groups that commit offsets of a partition, by topic and partition."""
        groups: dict[tuple[str, int], set[str]] = defaultdict(set)
        for group, topic, partition in self.commits:
            groups[self.name(topic), partition].add(group)
        return {partition: sorted(names) for partition, names in groups.items()}

    @property
    def by_producer(self) -> dict[str, list[str]]:
        """The ids of the consumer groups for which a producer commits offsets in transactions, by transactional id."""
        groups_by_key: dict[str, set[str]] = defaultdict(set)
        for group, transactional_id in self.producers:
            groups_by_key[transactional_id].add(group)
        return {transactional_id: sorted(groups) for transactional_id, groups in groups_by_key.items()}

    @property
    def replayed(self) -> dict[str, list[str]]:
        """The ids of the consumer groups that subscribe to a topic, by topic; empty if groups are not replayed."""
        groups_by_key: dict[str, set[str]] = defaultdict(set)
        for group, topic in self.wanted:
            groups_by_key[self.name(topic)].add(group)
        return {topic: sorted(groups) for topic, groups in groups_by_key.items()}


def summary_of(extracted: DataFrame) -> CaptureSummary:
    """Return the summary of the first stage's bundles.

    The call runs the first stage, so the caller should persist ``extracted`` before. Otherwise Spark runs the first
    stage again for the next use of ``extracted``.

    Args:
        extracted: bundles of the first stage, as a DataFrame.
    """
    return summary_of_rows(extracted.where(sql.col("kind").isin(*SUMMARY_KINDS)).collect())


def summary_of_rows(collected: Iterable[Any]) -> CaptureSummary:
    return CaptureSummary.of(Bundle(row.kind, row.about, bytes(row.rows)) for row in collected)
