"""The lag of groups and of their partitions over time, in bounded memory, for a live page that is opened later."""

from __future__ import annotations

from array import array
from collections.abc import Generator, Iterable, Mapping
from dataclasses import field
from itertools import islice
from typing import Any

from kwire.lazy_dataclass import dataclass
from mockbroker.groups.coordinated import CoordinatedGroup
from mockbroker.topics.log import UNKNOWN_END
from mockbroker.topics.model import Topic

INTERVAL_MS = 1_000  # minimum time between two points of a curve, in broker time
POINTS = 600  # maximum number of points of a curve; beyond that every second point of the older half is removed
GROUPS = 500  # maximum number of groups with curves
CURVES = 1_000  # maximum number of partitions with a curve, in all groups together
CURVES_AT_ONCE = 50  # curves that are copied before other tasks run
UNKNOWN = -1  # the value of a partition without a committed offset
Partition = tuple[str, int]


def lag(topics: Mapping[str, Topic], name: str, index: int, offset: int) -> int | None:
    """Return the lag of a committed offset in records; None if the partition or its log end offset is unknown.

    Args:
        topics: topics by name.
        name: name of the topic.
        index: index of the partition.
        offset: the committed offset.
    """
    topic = topics.get(name)
    partition = None if topic is None else topic.partition(index)
    if partition is None or partition.log.end == UNKNOWN_END:
        return None
    return max(partition.log.end - offset, 0)


@dataclass(slots=True)
class Curves:
    """The lag of a group over time. Between two points the lag is constant.

    Attributes:
        times: times of the points, in milliseconds since the cluster was started or reset.
        total: the sum of the lags of all partitions, also of those without a curve, in records.
        partitions: the lag of each partition, in records; UNKNOWN at a point without a committed offset.
    """

    times: array[int] = field(default_factory=lambda: array("q"))
    total: array[int] = field(default_factory=lambda: array("q"))
    partitions: dict[Partition, array[int]] = field(default_factory=dict)

    def ends_with(self, lags: Mapping[Partition, int]) -> bool:
        """Return whether the sum of the lags, and the lag of each partition with a curve, are as at the last point.

        The result is False if there is no point.

        ``lags``: lag by partition.
        """
        return (
            len(self.times) > 0
            and self.total[-1] == _total(lags)
            and all(values[-1] == lags.get(partition, UNKNOWN) for partition, values in self.partitions.items())
        )

    def add(self, time_ms: int, lags: Mapping[Partition, int]) -> None:
        """Add a point to the curves.

        If the last point is less than INTERVAL_MS older, the new point replaces it, unless it is the only point. If
        there are then more than POINTS points, every second point of the older half is removed.

        Args:
            time_ms: time of the point, in milliseconds since the cluster was started or reset.
            lags: the lags of all partitions whose lag is known.
        """
        if len(self.times) > 1 and time_ms - self.times[-1] < INTERVAL_MS:
            for values in self._all():
                values.pop()
        self.times.append(time_ms)
        self.total.append(_total(lags))
        for partition, values in self.partitions.items():
            values.append(lags.get(partition, UNKNOWN))
        if len(self.times) > POINTS:
            for values in self._all():
                half = len(values) // 2
                values[:half] = values[:half:2]

    def _all(self) -> Iterable[array[int]]:
        return (self.times, self.total, *self.partitions.values())


class LagHistory:
    """The lag curves of all groups."""

    def __init__(self) -> None:
        self._groups: dict[str, Curves] = {}
        self._source: object = None
        self._count = 0  # of curves of partitions

    def sample(
        self, groups: Mapping[str, CoordinatedGroup], topics: Mapping[str, Topic], time_ms: int
    ) -> Generator[None, None, None]:
        """Add a point to the curves of each group whose lag has changed, and remove deleted groups. Yield after each
        group.

        Only the first GROUPS groups get points, and at most CURVES partitions have a curve.

        Args:
            groups: the groups by group id. A different object than in the last call means that the cluster was reset;
                all curves are then removed.
            topics: the topics by name.
            time_ms: the time in milliseconds since the cluster was started or reset.
        """
        if groups is not self._source:
            self._groups, self._source, self._count = {}, groups, 0
        for group_id in list(islice(groups, GROUPS)):
            if (group := groups.get(group_id)) is not None:
                self._add(group_id, group, topics, time_ms)
                yield
        for group_id in [each for each in self._groups if each not in groups]:
            self._count -= len(self._groups.pop(group_id).partitions)

    def slices(self, group_id: str) -> Generator[None, None, dict[str, Any]]:
        """Return the lag curves of a group as a JSON object; empty curves for a group without known lag.

        The generator yields after a limited number of curves, so that other tasks can run.
        """
        curves = self._groups.get(group_id, Curves())
        times, total = curves.times.tolist(), curves.total.tolist()
        partitions: dict[str, dict[str, list[int | None]]] = {}
        copies = {partition: values[:] for partition, values in curves.partitions.items()}  # of the same length
        for number, ((topic, index), values) in enumerate(copies.items(), 1):
            partitions.setdefault(topic, {})[str(index)] = [None if each == UNKNOWN else each for each in values]
            if number % CURVES_AT_ONCE == 0:
                yield
        return {"times_ms": times, "total": total, "partitions": partitions}

    def _add(self, group_id: str, group: CoordinatedGroup, topics: Mapping[str, Topic], time_ms: int) -> None:
        committed = group.offsets.committed
        by_partition = {partition: lag(topics, *partition, each.offset) for partition, each in committed.items()}
        lags = {partition: each for partition, each in by_partition.items() if each is not None}
        curves = self._groups.get(group_id)
        if curves is None:
            if not lags:
                return
            curves = self._groups[group_id] = Curves()
        new = sorted(lags.keys() - curves.partitions.keys())[: CURVES - self._count]
        if new or not curves.ends_with(lags):
            for partition in new:
                curves.partitions[partition] = array("q", [UNKNOWN] * len(curves.times))
            self._count += len(new)
            curves.add(time_ms, lags)


def _total(lags: Mapping[Partition, int]) -> int:
    return sum(lags.values())
