"""The log manager, which applies retention, compaction and producer expiry to the logs of topics.

The log manager runs at regular checks or on demand. Each log has its own deadline: the first regular check at which a
segment or a producer can have expired, or the log can need compaction. So an idle cluster does no work. Logs of
internal topics are managed by their coordinators. Source: Kafka's LogManager.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable

from mockbroker.base.deadlines import Deadlines
from mockbroker.base.regular import RegularChecks
from mockbroker.base.release import Release
from mockbroker.base.settings import Settings
from mockbroker.base.timers import CompactionDue, Due, ProducersDue, RetentionDue
from mockbroker.broker.log_cleaner import LogCleaner
from mockbroker.topics.log_config import LogConfig
from mockbroker.topics.model import ClusterState, Partition, Topic
from mockbroker.topics.retention import delete_old_segments, next_deletion


class LogManager:
    """The log manager of a cluster.

    Args:
        cluster: The topics.
        settings: Function that returns the settings of a broker, given the broker id.
        release: The emulated Kafka release.
        deadlines: The deadlines in the broker's time.
        checks: The times of regular checks.
        wall_ms: Function that converts a time of the broker's clock to milliseconds since 1970.
    """

    def __init__(
        self,
        cluster: ClusterState,
        settings: Callable[[int], Settings],
        release: Release,
        deadlines: Deadlines[Due],
        checks: RegularChecks,
        wall_ms: Callable[[float], int],
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._release = release
        self._deadlines = deadlines
        self._checks = checks
        self._wall_ms = wall_ms
        self._cleaner = LogCleaner(settings, deadlines, checks, wall_ms)

    def config(self, topic: Topic, partition: Partition) -> LogConfig:
        """Return the effective configurations of the log of a partition.

        The defaults are the settings of the partition's leader.
        """
        config = topic.log_configs.get(partition.leader)
        if config is None:
            settings = self._settings(partition.leader)
            config = topic.log_configs[partition.leader] = LogConfig.of(topic.configs, settings, self._release)
        return config

    def appended(self, topic: Topic, partition: Partition, config: LogConfig, base_offset: int, now: float) -> None:
        """Schedule the checks that an append to a log makes necessary.

        Args:
            topic: The topic.
            partition: The partition of the topic.
            config: The effective configurations of the log.
            base_offset: Base offset of the appended batch.
            now: The broker's time in seconds.
        """
        log = partition.log
        first, limit = log.segments[0], config.retention_bytes
        if log.segments[-1].base_offset == base_offset or (limit >= 0 and log.size - limit >= first.size):
            self._schedule_retention(topic, partition, config, now, postpone=False)
            if config.compact:
                self._cleaner.schedule(topic, partition, config, now, postpone=False)
        if partition.producers.unchecked:
            self._schedule_producers(topic, partition, now)

    def appended_internally(self, partitions: Iterable[Partition], now: float) -> None:
        """Schedule the checks of partitions of internal topics after appends. ``now``: the broker's time in seconds."""
        for partition in partitions:
            if partition.producers.unchecked:
                self._schedule_producers(self._cluster.topics[partition.topic], partition, now)

    def follow_changes(self, now: float) -> None:
        """Schedule the checks of logs whose configurations have changed. ``now``: the broker's time in seconds."""
        topics, self._cluster.reconfigured = self._cluster.reconfigured, []
        for topic in topics:
            if self._cluster.by_id.get(topic.topic_id) is topic:
                self.schedule([topic], now)

    def schedule(self, topics: Iterable[Topic], now: float) -> None:
        """Schedule the checks of the logs of topics, as after a restart. ``now``: the broker's time in seconds."""
        for topic in topics:
            for partition in topic.partitions:
                self._schedule_producers(topic, partition, now)
                if not topic.internal:
                    config = self.config(topic, partition)
                    self._schedule_retention(topic, partition, config, now)
                    self._cleaner.schedule(topic, partition, config, now)

    def forget(self, topic: Topic) -> None:
        """Cancel the checks of the logs of a deleted topic."""
        self._cleaner.forget(topic)
        for partition in topic.partitions:
            self._deadlines.forget(RetentionDue(topic.topic_id, partition.index))
            self._deadlines.forget(ProducersDue(topic.topic_id, partition.index))

    def run_retention(self, topics: Iterable[Topic], now: float) -> list[Partition]:
        """Delete the segments that retention allows to delete, without waiting for the next check.

        Return the partitions whose log start offset has changed.

        ``now``: the broker's time in seconds.

        Internal topics are skipped.
        """
        return [
            partition
            for topic in topics
            if not topic.internal
            for partition in topic.partitions
            if self._delete_old_segments(topic, partition, now)
        ]

    def retention_due(self, due: RetentionDue, now: float) -> list[Partition]:
        """Delete the segments of a log that retention allows to delete, and schedule the next check.

        Args:
            due: Key of the deadline, which contains the partition.
            now: The broker's time in seconds.

        Returns: the partition in a list if its log start offset has changed, else [].
        """
        if (found := self._find(due)) is None:
            return []
        topic, partition = found
        return [partition] if self._delete_old_segments(topic, partition, now) else []

    def compact(self, topics: Iterable[Topic], now: float) -> Generator[None, None, None]:
        """Compact the partitions of topics now. Topics without ``cleanup.policy=compact`` are skipped.

        The generator yields after about every ``log_cleaner.STEP`` bytes, so that requests are handled between two
        parts of the compaction.

        Args:
            topics: The topics.
            now: The broker's time in seconds.
        """
        for topic in topics:
            for partition in topic.partitions if not topic.internal else ():
                config = self.config(topic, partition)
                if config.compact:
                    yield from self._cleaner.compact(topic, partition, config, now)

    def compaction_due(self, due: CompactionDue, now: float) -> None:
        """Begin the compaction of a log that needs it, or continue a compaction in progress.

        Args:
            due: Key of the deadline, which contains the partition.
            now: The broker's time in seconds.
        """
        if (found := self._find(due)) is not None:
            topic, partition = found
            self._cleaner.due(topic, partition, self.config(topic, partition), now)

    def _find(self, due: RetentionDue | CompactionDue | ProducersDue) -> tuple[Topic, Partition] | None:
        topic = self._cluster.by_id.get(due.topic_id)
        partition = None if topic is None else topic.partition(due.partition)
        return None if topic is None or partition is None else (topic, partition)

    def producers_due(self, due: ProducersDue, now: float) -> None:
        """Remove the expired producers of a partition, and schedule the next check.

        Args:
            due: Key of the deadline, which contains the partition.
            now: The broker's time in seconds.
        """
        if (found := self._find(due)) is not None:
            topic, partition = found
            partition.producers.remove_expired(
                self._wall_ms(now) - self._settings(partition.leader).producer_id_expiration_ms
            )
            self._schedule_producers(topic, partition, now)

    def _delete_old_segments(self, topic: Topic, partition: Partition, now: float) -> bool:
        config = self.config(topic, partition)
        deleted = delete_old_segments(partition, config, self._wall_ms(now))
        self._schedule_retention(topic, partition, config, now)
        return bool(deleted)

    def _schedule_retention(
        self, topic: Topic, partition: Partition, config: LogConfig, now: float, *, postpone: bool = True
    ) -> None:
        settings, now_ms = self._settings(partition.leader), self._wall_ms(now)
        every_ms = (
            max(settings.log_cleaner_backoff_ms, 1) if config.compact else settings.log_retention_check_interval_ms
        )
        due, at_ms = RetentionDue(topic.topic_id, partition.index), next_deletion(partition, config, now_ms)
        self._set(due, at_ms, every_ms, now, postpone=postpone)

    def _schedule_producers(self, topic: Topic, partition: Partition, now: float) -> None:
        settings, oldest = self._settings(partition.leader), partition.producers.oldest_timestamp()
        at_ms = None if oldest is None else oldest + settings.producer_id_expiration_ms
        every_ms = settings.producer_id_expiration_check_interval_ms
        self._set(ProducersDue(topic.topic_id, partition.index), at_ms, every_ms, now)
        partition.producers.unchecked = False

    def _set(
        self, due: RetentionDue | ProducersDue, at_ms: int | None, every_ms: int, now: float, *, postpone: bool = True
    ) -> None:
        """Schedule a check: the first regular check that is not before ``at_ms`` and is after ``now``.

        Args:
            due: The key of the deadline.
            at_ms: Earliest time of the check in milliseconds since 1970; None for no check.
            every_ms: Time between two regular checks, in milliseconds.
            now: The broker's time in seconds.
            postpone: False to keep an earlier check that is already scheduled. If every append could postpone the
                check, the check would never run.
        """
        if at_ms is None:
            self._deadlines.forget(due)
            return
        wanted = now + max(at_ms - self._wall_ms(now), 0) / 1000
        at, scheduled = self._checks.next(wanted, now, every_ms / 1000), self._deadlines.at(due)
        if postpone or scheduled is None or at < scheduled:
            self._deadlines.set(due, at)
