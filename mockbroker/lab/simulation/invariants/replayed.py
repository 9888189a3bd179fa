"""I11: what is written of groups comes to what they are."""

from __future__ import annotations

from mockbroker.broker.broker import Broker
from mockbroker.groups.classic.state import ClassicGroup, State
from mockbroker.groups.consumer.state import ConsumerGroup
from mockbroker.groups.records.rebuild import rebuilt
from mockbroker.groups.records.replay import replayed
from mockbroker.groups.records.wall_time import Wall
from mockbroker.groups.registry import AnyGroup
from mockbroker.lab.simulation.watching import Watcher, is_away
from mockbroker.topics.model import OFFSETS_TOPIC

EVERY = 8  # looks; reading all logs takes as long as some hundred requests
SETTLED = (State.STABLE, State.EMPTY)


class Replayed(Watcher):
    """Of a classic group in a rebalance nothing is written but its offsets; a new coordinator lets it begin anew."""

    name = "I11"

    def __init__(self) -> None:
        self._looks = 0

    def look(self, broker: Broker, now: float) -> None:
        self._looks += 1
        if self._looks % EVERY == 0:
            self.healed(broker, now)

    def emptied(self, broker: Broker, now: float) -> None:
        self.healed(broker, now)

    def healed(self, broker: Broker, now: float) -> None:
        found: dict[str, AnyGroup] = {}
        for partition in broker.cluster.topics[OFFSETS_TOPIC].partitions:
            replay = replayed(partition.log.batches())
            java = broker.release.java_coordinator
            found |= rebuilt(replay, broker.cluster, broker.settings, Wall(0.0), now, java_coordinator=java)
        for group_id in dict.fromkeys([*broker.groups, *found]):
            if not is_away(broker, group_id):
                self._compare(group_id, broker.groups.get(group_id), found.get(group_id))

    def _compare(self, group_id: str, there: AnyGroup | None, written: AnyGroup | None) -> None:
        if there is None:
            raise self.broken(f"{group_id} is written, and is not there")
        offsets = _offsets(there)
        if written is None:
            if any(offsets) or isinstance(there, ConsumerGroup) or (there.state in SETTLED and there.generation):
                raise self.broken(f"{group_id} is there, and nothing is written of it")
            return
        self._same(f"offsets of {group_id}", _offsets(written), offsets)
        if isinstance(there, ConsumerGroup) or there.state in SETTLED:
            self._same(group_id, _described(written), _described(there))

    def _same(self, what: str, written: object, there: object) -> None:
        if written != there:
            raise self.broken(f"{what}: {written} is written, and {there} is there")


def _offsets(group: AnyGroup) -> tuple[object, object]:
    committed = {place: each.offset for place, each in group.offsets.committed.items()}
    held = {
        producer: {place: each.offset for place, (_, each) in places.items()}
        for producer, places in group.offsets.pending.items()
    }
    return committed, held


def _described(group: AnyGroup) -> tuple[object, ...]:
    if isinstance(group, ClassicGroup):
        members: dict[str, object] = {m.member_id: (m.instance_id, m.assignment) for m in group.members.values()}
        return ClassicGroup, group.state, group.generation, group.protocol, group.leader, members
    targets = {name: group.target_of(name) for name in group.members}
    members = {
        m.member_id: (m.instance_id, m.epoch, m.previous_epoch, m.state, m.assigned, m.revoking, m.topics)
        for m in group.members.values()
    }
    return ConsumerGroup, group.epoch, group.assignment_epoch, members, targets
