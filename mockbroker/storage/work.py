"""What is to be done to a data directory, in order, and the one who does it: in a thread of its own, or at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias
from uuid import UUID

from mockbroker.storage.catalogue import CATALOGUE
from mockbroker.storage.disk import Disk, replace_file
from mockbroker.storage.layout import START_OFFSETS, Place, start_offsets
from mockbroker.storage.partition_files import PartitionFiles
from mockbroker.storage.segments import directory_name
from mockbroker.topics.log import Stored


@dataclass(frozen=True, slots=True)
class Create:
    place: Place
    topic_id: UUID


@dataclass(frozen=True, slots=True)
class Append:
    place: Place
    stored: Stored
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class Cut:
    """Everything before ``start`` goes."""

    place: Place
    start: int


@dataclass(frozen=True, slots=True)
class Replace:
    place: Place
    batches: Sequence[Stored]


@dataclass(frozen=True, slots=True)
class Delete:
    place: Place


Operation: TypeAlias = Create | Append | Cut | Replace | Delete


@dataclass(frozen=True, slots=True)
class Work:
    """``number``: of the last change in it. ``catalogue``: the file anew, None if it is as it was.

    ``segment_bytes``: by topic, where a topic is configured otherwise than others.
    """

    number: int
    catalogue: bytes | None
    segment_bytes: Mapping[str, int]
    operations: Sequence[Operation]


class Worker:
    """``starts``: the first offset of each log that does not begin with its first segment. One thread at a time."""

    def __init__(
        self, disk: Disk, partitions: dict[Place, PartitionFiles], starts: dict[Place, int], segment_bytes: int
    ) -> None:
        self._disk = disk
        self._partitions = partitions
        self._starts = starts
        self._segment_bytes = segment_bytes  # of topics that do not say otherwise
        self._names_unsure = True  # those of directories: recovery may have made some again

    def perform(self, work: Work) -> None:
        """Come back when all of it is sure to outlive a crash. Raises: OSError.

        The catalogue comes first: a directory of a topic that is not in it would belong to nobody. Where a log begins
        comes before its first segments go.
        """
        if work.catalogue is not None:
            replace_file(self._disk, CATALOGUE, work.catalogue)
        touched: dict[Place, PartitionFiles] = {}
        cut: dict[Place, int] = {}
        for operation in work.operations:
            place = operation.place
            match operation:
                case Append(_, stored, leader_epoch):
                    files = touched[place] = self._partitions[place]
                    files.append(stored, leader_epoch, work.segment_bytes.get(place[0], self._segment_bytes))
                case Cut(_, start):
                    cut[place] = start
                case Replace(_, batches):
                    self._partitions[place].replace(batches)
                case Create(_, topic_id):
                    files = self._partitions[place] = PartitionFiles(self._disk, directory_name(*place))
                    files.create(topic_id)
                    self._names_unsure = True
                case Delete():
                    touched.pop(place, None)
                    cut.pop(place, None)
                    self._delete(place)
        for files in touched.values():
            files.write()
        for files in touched.values():
            files.sync()
        if self._names_unsure and touched:
            self._disk.sync_folder("")
            self._names_unsure = False
        if cut:
            self._starts |= cut
            replace_file(self._disk, START_OFFSETS, start_offsets(self._starts))
            for place, start in cut.items():
                self._partitions[place].cut(start)

    def close(self) -> None:
        """What may be written at the end, as it can be made again. Raises: OSError."""
        for files in self._partitions.values():
            files.close()

    def _delete(self, place: Place) -> None:
        if self._starts.pop(place, None) is not None:
            replace_file(self._disk, START_OFFSETS, start_offsets(self._starts))
        self._partitions.pop(place).remove()
        self._names_unsure = True
