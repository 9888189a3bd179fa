"""The checker of invariant I11: a replay of the records in __consumer_offsets produces the groups that are in
memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import is_not

from kwire.records.batch import read_batch
from mockbroker.broker.broker import Broker
from mockbroker.groups.classic.state import ClassicGroup, State
from mockbroker.groups.consumer.state import ConsumerGroup
from mockbroker.groups.coordinated import CoordinatedGroup, as_type
from mockbroker.groups.records.rebuild import groups_from_records
from mockbroker.groups.records.replay import Replay
from mockbroker.groups.records.wall_time import WallClock
from mockbroker.groups.streams.state import StreamsGroup
from mockbroker.lab.simulation.watching import Watcher, is_away
from mockbroker.topics.log import StoredBatch
from mockbroker.topics.model import OFFSETS_TOPIC, Partition

EVERY = 8  # inspections per replay; replaying all logs takes as long as some hundred requests
SETTLED = (State.STABLE, State.EMPTY)


@dataclass(frozen=True, slots=True)
class LastReplay:
    """The last replay of a log.

    Attributes:
        batches: batches of the log.
        replay: result of replaying the batches.
        groups: groups that the replay produces, by id.
    """

    batches: list[StoredBatch]
    replay: Replay
    groups: dict[str, CoordinatedGroup]


class Replayed(Watcher):
    """The checker of invariant I11: the records in __consumer_offsets contain the groups of the coordinator.

    During a rebalance, the records of a classic group contain only its offsets. In this case, only the offsets are
    compared.
    """

    name = "I11"

    def __init__(self) -> None:
        self._looks = 0
        self._replays: dict[int, LastReplay] = {}  # by partition

    def inspect(self, broker: Broker, now: float) -> None:
        self._looks += 1
        if self._looks % EVERY == 0:
            self.healed(broker, now)

    def emptied(self, broker: Broker, now: float) -> None:
        self.healed(broker, now)

    def healed(self, broker: Broker, now: float) -> None:
        from_log: dict[str, CoordinatedGroup] = {}
        for partition in broker.cluster.topics[OFFSETS_TOPIC].partitions:
            from_log |= self._groups_in(partition, broker, now)
        for group_id in dict.fromkeys([*broker.groups, *from_log]):
            if not is_away(broker, group_id):
                self._compare(group_id, broker.groups.get(group_id), from_log.get(group_id))

    def _groups_in(self, partition: Partition, broker: Broker, now: float) -> dict[str, CoordinatedGroup]:
        """Return the groups that a replay of a log produces: group id -> group.

        If batches were only appended since the last replay, only the new batches are replayed. Else all batches are
        replayed.

        Args:
            partition: partition of the log.
            broker: the broker.
            now: broker time, seconds.
        """
        log = partition.log
        stored = [batch for index in range(len(log.segments)) for batch in log.segment_batches(index)]
        last = self._replays.get(partition.index)
        if last is None or len(last.batches) > len(stored) or any(map(is_not, last.batches, stored)):
            last = LastReplay([], Replay(), {})
        if last.batches and len(last.batches) == len(stored):
            return last.groups
        for batch in stored[len(last.batches) :]:
            last.replay.add(read_batch(batch.data))
        context = broker.groups.context
        groups = groups_from_records(last.replay, broker.groups.types, context, WallClock(0.0), now)
        self._replays[partition.index] = LastReplay(stored, last.replay, groups)
        return groups

    def _compare(self, group_id: str, there: CoordinatedGroup | None, written: CoordinatedGroup | None) -> None:
        if there is None:
            raise self.broken(
                f"group {group_id} has records in __consumer_offsets, but the coordinator has no such group"
            )
        offsets = _offsets(there)
        if written is None:
            if any(offsets) or (_is_fully_written(there) and there.generation):
                raise self.broken(f"the coordinator has group {group_id}, but __consumer_offsets has no records of it")
            return
        self._same(f"offsets of group {group_id}", _offsets(written), offsets)
        if _is_fully_written(there):
            self._same(f"group {group_id}", _described(written), _described(there))

    def _same(self, what: str, written: object, there: object) -> None:
        if written != there:
            raise self.broken(
                f"{what}: a replay of __consumer_offsets results in {written}, but the coordinator has {there}"
            )


def _is_fully_written(group: CoordinatedGroup) -> bool:
    """Return whether the records of a group contain its whole state: False for a classic group during a rebalance."""
    classic = as_type(group, ClassicGroup)
    return classic is None or classic.state in SETTLED


def _offsets(group: CoordinatedGroup) -> tuple[object, object]:
    committed = {place: each.offset for place, each in group.offsets.committed.items()}
    held = {
        producer: {place: each.offset for place, (_, each) in places.items()}
        for producer, places in group.offsets.pending_transactional.items()
    }
    return committed, held


def _described(group: CoordinatedGroup) -> tuple[object, ...]:
    described: tuple[object, ...] = (group.type_name, group.state_name, group.generation)
    if (classic := as_type(group, ClassicGroup)) is not None:
        shares = {m.member_id: (m.instance_id, m.assignment) for m in classic.members.values()}
        described += (classic.protocol, classic.leader, shares)
    if (consumers := as_type(group, ConsumerGroup)) is not None:
        targets = {name: consumers.target_of(name) for name in consumers.members}
        members = {
            m.member_id: (m.instance_id, m.epoch, m.previous_epoch, m.state, m.assigned, m.pending_revocation, m.topics)
            for m in consumers.members.values()
        }
        described += (consumers.assignment_epoch, members, targets)
    if (streams := as_type(group, StreamsGroup)) is not None:
        described += (streams.assignment_epoch, dict(streams.members), dict(streams.target), streams.topology)
    return described
