"""The log cleaner: compacts the logs of topics with ``cleanup.policy=compact``, at regular checks or on demand.

A compaction is done in parts of about STEP bytes; requests are handled between two parts. Source: Kafka's LogCleaner.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator

from kwire import WireError
from mockbroker.base.deadlines import Deadlines
from mockbroker.base.regular import RegularChecks
from mockbroker.base.settings import Settings
from mockbroker.base.timers import CompactionDue, Due
from mockbroker.topics.cleanable import CleanableLog, cleanable_log
from mockbroker.topics.compaction import compaction
from mockbroker.topics.log_config import LogConfig
from mockbroker.topics.model import Partition, Topic

log = logging.getLogger("mockbroker")
STEP = 200_000  # cost of a step in bytes: about 5 ms


class LogCleaner:
    """The log cleaner of a cluster.

    Args:
        settings: Function that returns the settings of a broker, given the broker id.
        deadlines: The deadlines in the broker's time.
        checks: The times of regular checks.
        wall_ms: Function that converts a time of the broker's clock to milliseconds since 1970.
    """

    def __init__(
        self,
        settings: Callable[[int], Settings],
        deadlines: Deadlines[Due],
        checks: RegularChecks,
        wall_ms: Callable[[float], int],
    ) -> None:
        self._settings = settings
        self._deadlines = deadlines
        self._checks = checks
        self._wall_ms = wall_ms
        self._running: dict[CompactionDue, Generator[int, None, None]] = {}

    def schedule(
        self, topic: Topic, partition: Partition, config: LogConfig, now: float, *, postpone: bool = True
    ) -> None:
        """Schedule the next check of a partition. A compaction in progress continues.

        If no check is necessary, a scheduled check is cancelled.

        Args:
            topic: The topic, which must not be internal.
            partition: The partition.
            config: The configurations of the topic.
            now: The broker's time in seconds.
            postpone: False to keep an earlier check that is already scheduled.
        """
        due = _key(topic, partition)
        if due in self._running:
            return
        at_ms = self._next_check(partition, config, now) if self._compacts(partition, config) else None
        if at_ms is None:
            self._deadlines.forget(due)
            return
        every = max(self._settings(partition.leader).log_cleaner_backoff_ms, 1) / 1000
        wanted = now + max(at_ms - self._wall_ms(now), 0) / 1000
        at, scheduled = self._checks.next(wanted, now, every), self._deadlines.at(due)
        if postpone or scheduled is None or at < scheduled:
            self._deadlines.set(due, at)

    def forget(self, topic: Topic) -> None:
        """Cancel the checks and compactions of a deleted topic."""
        for partition in topic.partitions:
            self._running.pop(_key(topic, partition), None)
            self._deadlines.forget(_key(topic, partition))

    def due(self, topic: Topic, partition: Partition, config: LogConfig, now: float) -> None:
        """Compact the next STEP bytes of a compaction in progress, or begin a compaction if the log needs one.

        Args:
            topic: The topic, which must not be internal.
            partition: The partition.
            config: The configurations of the topic.
            now: The broker's time in seconds.
        """
        key = _key(topic, partition)
        if key not in self._running:
            cleanable = self._cleanable(partition, config, now)
            if not (self._compacts(partition, config) and cleanable.needs_compaction(config)):
                self.schedule(topic, partition, config, now)
                return
            self._running[key] = compaction(partition, cleanable, self._wall_ms(now), config.delete_retention_ms)
        if self._advance(key, partition):
            self._deadlines.set(key, now)
        else:
            self.schedule(topic, partition, config, now)

    def compact(self, topic: Topic, partition: Partition, config: LogConfig, now: float) -> Generator[None, None, None]:
        """Compact a partition now, without regard to ``min.cleanable.dirty.ratio``.

        The active segment is closed first, so that its records are compacted too. The generator yields after about
        every STEP bytes, so that requests are handled between two parts of the compaction.

        Args:
            topic: The topic, which must not be internal.
            partition: The partition.
            config: The configurations of the topic.
            now: The broker's time in seconds.
        """
        key = _key(topic, partition)
        while key in self._running and self._advance(key, partition):
            yield
        partition.log.roll()
        cleanable = self._cleanable(partition, config, now)
        if cleanable.segments:
            self._running[key] = compaction(partition, cleanable, self._wall_ms(now), config.delete_retention_ms)
            while self._advance(key, partition):
                yield
        self.schedule(topic, partition, config, now)

    def _advance(self, key: CompactionDue, partition: Partition) -> bool:
        """Compact about STEP bytes of a compaction in progress.

        Args:
            key: Key of the compaction.
            partition: The partition.

        Returns: whether the compaction continues; False if it is complete or has failed.
        """
        steps, cost = self._running.get(key), 0
        try:
            for done in steps or ():
                cost += done
                if cost >= STEP:
                    return True
        except WireError as error:  # Kafka's cleaner marks the partition as uncleanable
            log.warning("%s-%d was not compacted: %s", partition.topic, partition.index, error)
            partition.cleaned_until = partition.log.end
        self._running.pop(key, None)
        return False

    def _compacts(self, partition: Partition, config: LogConfig) -> bool:
        return config.compact and self._settings(partition.leader).log_cleaner_enable

    def _cleanable(self, partition: Partition, config: LogConfig, now: float) -> CleanableLog:
        return cleanable_log(
            partition, min_lag_ms=config.min_lag_ms, max_lag_ms=config.max_lag_ms, now_ms=self._wall_ms(now)
        )

    def _next_check(self, partition: Partition, config: LogConfig, now: float) -> int | None:
        """Return the time of the next check, in milliseconds since 1970.

        Return None if no check is necessary before the next append.

        Args:
            partition: the partition.
            config: the configurations of the topic.
            now: the current time in seconds.
        """
        now_ms, segments = self._wall_ms(now), partition.log.segments
        cleanable = self._cleanable(partition, config, now)
        dirty = [each for each in segments[:-1] if each.last_offset >= cleanable.first_dirty]
        if cleanable.needs_compaction(config):
            return now_ms
        if not dirty:
            return None
        times = [each.largest_timestamp + config.min_lag_ms for each in dirty] if config.min_lag_ms else []
        times += [each.first_timestamp + config.max_lag_ms + 1 for each in dirty if each.first_timestamp > 0]
        if partition.last_stable < segments[-1].base_offset:
            times.append(now_ms)  # a transaction is open, whose end is not noticed here
        later = [each for each in times if each >= now_ms]
        return min(later, default=None)


def _key(topic: Topic, partition: Partition) -> CompactionDue:
    return CompactionDue(topic.topic_id, partition.index)
