"""Questions that leaders of partitions answer: asked of each leader at once, and again until all are answered."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kwire.errorcodes import ErrorCode
from mockbroker.client.call import OutgoingCall
from mockbroker.client.errors import ConsumerError, broker_error
from mockbroker.client.metadata import Leader, TopicPartition
from mockbroker.client.parts import Parts

CONSUMER_REPLICA = -1  # who asks is no broker
AGAIN = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.REPLICA_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_ID,
)
By = dict[TopicPartition, Leader]


class ByLeader:
    """Derive from it: ``key``, ``request`` and ``lines``. ``open``: partitions that are not answered yet."""

    key: int
    where: str
    lowest = 0
    nothing: tuple[int, ...] = ()  # errors that say that there is nothing to be told

    def __init__(self, partitions: Iterable[TopicPartition], parts: Parts) -> None:
        self.open = set(partitions)
        self._network, self._metadata = parts.network, parts.metadata
        self._time, self._backoff = parts.time, parts.backoff
        self.error: ConsumerError | None = None
        self._asked: set[TopicPartition] = set()
        self._not_before = 0.0
        self._failures = 0
        self._leaderless = -1  # version of the metadata that had no leader for some

    @property
    def topics(self) -> set[str]:
        """That metadata is needed of."""
        return {topic for topic, _ in self.open}

    @property
    def done(self) -> bool:
        return not self.open or self.error is not None

    def due(self) -> float:
        return float("inf") if self.done or self._asked >= self.open else self._not_before

    def request(self, version: int, asked: By) -> object:
        """The request to the leader of ``asked``."""
        raise NotImplementedError

    def lines(self, answer: Any) -> Iterable[tuple[TopicPartition, Any]]:
        """The answer's partitions, with ``error_code``."""
        raise NotImplementedError

    def record_line(self, partition: TopicPartition, line: Any) -> None:
        """A partition was answered, without an error or with one of ``nothing``."""
        raise NotImplementedError

    def ask_if_due(self) -> None:
        """Ask whoever can be asked."""
        news = -1 < self._leaderless < self._metadata.version
        if self.done or (self._not_before > self._time.now and not news):
            return
        self._leaderless = -1
        by_node: dict[int, By] = {}
        for partition in sorted(self.open - self._asked):
            leader = self._metadata.leader(partition)
            node = self._network.broker(leader.node_id) if leader else None
            if leader is None or node is None or not self._network.can_ask(node):
                if code := self._metadata.errors.get(partition[0]):
                    self.error = broker_error(code, f"topic {partition[0]}")
                    return
                if self._metadata.version:  # else the first answer is on its way
                    self._metadata.retry_later()
                self._leaderless = self._metadata.version
                self._later()
            else:
                by_node.setdefault(leader.node_id, {})[partition] = leader
        for node_id, asked in by_node.items():
            self._ask(node_id, asked)

    def _ask(self, node_id: int, asked: By) -> None:
        node = self._network.broker(node_id)
        assert node
        self._asked |= set(asked)
        self._network.ask(
            node,
            self.key,
            lambda version: self.request(version, asked),
            lambda call: self._answered(call, asked),
            versions=(self.lowest, None),
        )

    def _answered(self, call: OutgoingCall, asked: By) -> None:
        self._asked -= set(asked)
        if unsupported := call.unsupported:
            self.error = unsupported
            return
        if call.failure is not None:
            self._metadata.refresh()
            self._later()
            return
        left = set(asked) & self.open
        for partition, line in self.lines(call.answer):
            if partition not in left:
                continue  # nobody asked
            left.discard(partition)
            code = line.error_code
            if not code or code in self.nothing:
                self.open.discard(partition)
                self.record_line(partition, line)
            elif code in AGAIN:
                self._metadata.refresh()
                self._later()
            else:
                self.error = broker_error(code, f"{self.where} of {partition[0]}-{partition[1]}")
        if left:
            self._later()

    def _later(self) -> None:
        if self._not_before <= self._time.now:
            self._not_before = self._time.now + self._backoff.after(self._failures)
            self._failures += 1
