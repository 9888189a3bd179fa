"""What the second stage needs to know of a consumer group besides its events, and the slices of large groups."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping

import pyarrow as pa

from kwire.analysis import events
from kwire.analysis.groups import slices
from kwire.analysis.topics import Watermark
from kwire.spark import bundles
from kwire.spark.bundles import Bundle, Rows, bundle, unbundle
from kwire.spark.capture_summary import CaptureSummary


def groups_in(
    known: CaptureSummary, buckets: Collection[int]
) -> tuple[dict[tuple[str, int], list[str]], dict[str, list[str]]]:
    """Return ``groups`` and ``by_producer`` of a summary, with the groups in some buckets only.

    Args:
        known: the summary.
        buckets: numbers of the buckets, see ``bundles.bucket_of``.
    """

    def some(groups: Iterable[str]) -> list[str]:
        return [one for one in groups if bundles.bucket_of(bundles.about_group(one)) in buckets]

    by_partition = {partition: some(groups) for partition, groups in known.groups.items()}
    return by_partition, {producer: some(groups) for producer, groups in known.by_producer.items()}


def send_to_groups(
    names: Mapping[str, str],
    groups: Mapping[tuple[str, int], list[str]],
    replayed: Mapping[str, list[str]],
    by_producer: Mapping[str, list[str]],
    sliced: Mapping[str, int],
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Copy data about topics and transactions into bundles of the consumer groups that need the data.

    Spark groups bundles by key. So one task gets the events of a group together with this data:

    - For a partition whose offsets the group commits: the end offsets, and the periods in which the partition was
      fetched.
    - For a topic to which a replayed group subscribes: the partitions.
    - For a producer that commits offsets for the group: the ends of the producer's transactions.

    Args:
        names: topic names; a key is the text ``id:`` followed by the topic id.
        groups: ids of the groups that commit offsets, by topic and partition.
        replayed: ids of the groups that subscribe to a topic, by topic; empty if groups are not replayed.
        by_producer: ids of the groups for which a producer commits offsets, by transactional id.
        sliced: number of slices of each large group, by the key of the group. A slice is a part of the group's events
            that one task processes. The end offsets of a partition are sent to the slice with the partition, and to the
            task that derives the findings of the group. Ends of transactions are sent to all slices.
        batches: bundles from the first stage whose kind is in FOR_GROUPS. Their key is empty.

    Yields: bundles whose key is the key of a group or of a slice.
    """
    for batch in batches:
        if complete := sent_to_groups(names, groups, replayed, by_producer, sliced, bundles.bundles_of(batch)):
            yield bundles.batch(complete)


def sent_to_groups(
    names: Mapping[str, str],
    groups: Mapping[tuple[str, int], list[str]],
    replayed: Mapping[str, list[str]],
    by_producer: Mapping[str, list[str]],
    sliced: Mapping[str, int],
    for_groups: Iterable[Bundle],
) -> list[Bundle]:
    marks_by_group: Rows = defaultdict(list)
    sizes: Rows = defaultdict(list)
    ended: Rows = defaultdict(list)
    fetched: Rows = defaultdict(list)
    for one in for_groups:
        rows = unbundle(one.rows)
        match one.kind:
            case "sizes":
                for size in rows:
                    for group in replayed.get(names.get(size.topic, size.topic), ()):
                        sizes[group].append(size)
            case "spans":
                for span in rows:
                    for group in groups.get((names.get(span.topic, span.topic), span.partition), ()):
                        fetched[group].append(span)
            case "endings":
                for ending in bundles.endings_of(rows):
                    for group in by_producer.get(ending.transactional_id, ()):
                        ended[group].append(ending)
            case "marks":
                for mark in bundles.marks_of(rows):
                    for group in groups.get((names.get(mark.topic, mark.topic), mark.partition), ()):
                        marks_by_group[group].append(mark)
            case unknown:
                raise bundles.unknown_kind(unknown)
    complete = [
        bundles.bundle_of_marks(about, some)
        for group, marks in marks_by_group.items()
        for about, some in _by_slice(bundles.about_group(group), marks, names, sliced)
    ]
    complete += [bundle("spans", bundles.about_group(group), some) for group, some in fetched.items()]
    complete += [bundle("sizes", bundles.about_group(group), some) for group, some in sizes.items()]
    complete += [
        bundles.bundle_of_endings(about, some)
        for group, some in ended.items()
        for about in _slices_of(bundles.about_group(group), sliced)
    ]
    return complete


def _slices_of(about: str, sliced: Mapping[str, int]) -> list[str]:
    """Return the keys of the slices of a consumer group, or the key of the group if it has no slices.

    Args:
        about: key of the group, from ``about_group``.
        sliced: number of slices of each large group, by the key of the group.
    """
    return [bundles.about_slice(about, n) for n in range(sliced[about])] if about in sliced else [about]


def _by_slice(
    about: str, marks: list[Watermark], names: Mapping[str, str], sliced: Mapping[str, int]
) -> Iterator[tuple[str, list[Watermark]]]:
    """Yield pairs of a key and end offsets.

    The first pair has the key of the consumer group and all end offsets. For a large group, more pairs follow: the key
    of a slice, and the end offsets of the partitions in the slice. A slice without end offsets has no pair.

    Args:
        about: key of the group, from ``about_group``.
        marks: end offsets of partitions that the group commits.
        names: topic names; a key is the text ``id:`` followed by the topic id.
        sliced: number of slices of each large group, by the key of the group.
    """
    yield about, marks
    if about in sliced:
        parted: dict[int, list[Watermark]] = defaultdict(list)
        for mark in marks:
            topic = names.get(mark.topic, mark.topic)
            parted[slices.slice_of(topic, mark.partition, sliced[about])].append(mark)
        for number, some in parted.items():
            yield bundles.about_slice(about, number), some


def divide_events(
    names: Mapping[str, str], sliced: Mapping[str, int], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Divide the events of large consumer groups into slices.

    Args:
        names: topic names; a key is the text ``id:`` followed by the topic id.
        sliced: number of slices of each large group, by the key of the group.
        batches: bundles with the events of large groups.

    Yields: bundles of the kind ``sliced``, whose key is the key of a slice. In their events, known topic names replace
        topic ids.
    """
    for batch in batches:
        for one in bundles.bundles_of(batch):
            named = (events.name_topics(event, names) for event in bundles.events_of(unbundle(one.rows)))
            parted = slices.slices(named, sliced[one.about])
            yield bundles.batch(
                [
                    bundles.bundle_of_slice(bundles.about_slice(one.about, n), some)
                    for n, some in enumerate(parted)
                    if some or not n
                ]
            )
