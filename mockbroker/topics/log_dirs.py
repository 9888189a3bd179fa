"""The log directories of brokers, and the directory of each replica. They exist only as metadata: the data is in memory
or in the data directory.

Source: Kafka's LogManager and ReplicaManager.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple
from uuid import UUID

IN_MEMORY = "/memory"  # directory of a cluster without log.dirs
VOLUME = 1 << 40  # bytes of the volume of each directory


class Replica(NamedTuple):
    """A replica of a partition on a broker.

    Attributes:
        node: broker id.
        topic_id: topic id.
        partition: partition number.
    """

    node: int
    topic_id: UUID
    partition: int


def paths_of(setting: str) -> list[str]:
    """Return the paths in a value of the setting ``log.dirs`` or ``log.dir``. ``setting``: the value."""
    return [path.strip() for path in setting.split(",") if path.strip()]


class LogDirs:
    """The log directories of the brokers of a cluster. All brokers have the same directories.

    Args:
        paths: absolute paths of the directories.
        current: replica -> its directory. The object changes this dictionary.
        future: replica -> directory to which the replica is being moved. The object changes this dictionary.
        changed: function that is called when one of the two dictionaries has changed.

    Attributes:
        paths: absolute paths of the directories, without duplicates; only IN_MEMORY if no path was given.
        future: value of the argument.
    """

    def __init__(
        self,
        paths: Sequence[str],
        current: dict[Replica, str] | None = None,
        future: dict[Replica, str] | None = None,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self.paths = list(dict.fromkeys(paths)) or [IN_MEMORY]
        self.future: dict[Replica, str] = {} if future is None else future
        self._current: dict[Replica, str] = {} if current is None else current
        self._changed = changed
        for replicas in (self.future, self._current):  # of an earlier start, with other directories
            for replica in [each for each, path in replicas.items() if path not in self.paths]:
                del replicas[replica]
        self._counts = Counter((replica.node, path) for replica, path in self._current.items())
        self._of_topic: dict[UUID, set[Replica]] = {}
        for replica in (*self.future, *self._current):
            self._of_topic.setdefault(replica.topic_id, set()).add(replica)
        self._preferred: dict[tuple[int, str, int], str] = {}  # of future replicas: node, topic, index

    def of(self, replica: Replica, topic: str) -> str:
        """Return the directory of a replica. At the first call for a replica, choose its directory.

        The choice is the preferred directory; without one, the directory with the fewest replicas of the broker.

        Args:
            replica: The replica.
            topic: Name of the topic.
        """
        if len(self.paths) == 1:
            return self.paths[0]
        path = self._current.get(replica)
        if path is None:
            path = self._preferred.pop((replica.node, topic, replica.partition), None) or self._emptiest(replica.node)
            self._place(replica, path)
        return path

    def _emptiest(self, node: int) -> str:
        return min(self.paths, key=lambda path: self._counts[node, path])

    def _place(self, replica: Replica, path: str) -> None:
        """Set the directory of a replica. ``path``: path of the directory."""
        if (before := self._current.get(replica)) is not None:
            self._counts[replica.node, before] -= 1
        self._current[replica] = path
        self._counts[replica.node, path] += 1
        self._of_topic.setdefault(replica.topic_id, set()).add(replica)
        self._changed()

    def prefer(self, node: int, topic: str, partition: int, path: str) -> None:
        """Set the directory in which a replica will be placed when its topic is created.

        If MAX_PREFERRED directories are stored already, do nothing.

        Args:
            node: Id of the broker.
            topic: Name of the topic.
            partition: Index of the partition.
            path: Path of the directory.
        """
        if len(self._preferred) < MAX_PREFERRED:
            self._preferred[node, topic, partition] = path

    def begin_move(self, replica: Replica, topic: str, path: str) -> bool:
        """Begin to move a replica to another directory; return True if the move has begun. A move in progress is
        cancelled.

        If the replica is in the directory ``path`` now, begin no move, and return False.

        Args:
            replica: The replica.
            topic: Name of the topic.
            path: Path of the target directory.
        """
        if self.future.pop(replica, None) is not None:
            self._changed()
        if self.of(replica, topic) == path:
            return False
        self.future[replica] = path
        self._changed()
        return True

    def complete_move(self, replica: Replica) -> None:
        """Complete the move of a replica: it is then in its new directory. Do nothing if the replica is not being
        moved.
        """
        path = self.future.pop(replica, None)
        if path is not None:
            self._place(replica, path)

    def delete_topic(self, topic_id: UUID) -> None:
        """Remove the replicas of a deleted topic."""
        for replica in self._of_topic.pop(topic_id, ()):
            self.future.pop(replica, None)
            if (path := self._current.pop(replica, None)) is not None:
                self._counts[replica.node, path] -= 1


MAX_PREFERRED = 10_000  # replicas that do not exist and have a preferred directory
