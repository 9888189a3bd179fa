"""I13: what is kept is bounded by what clients made, and goes with them."""

from __future__ import annotations

from mockbroker.base.timers import SWEEP
from mockbroker.broker.broker import Broker
from mockbroker.groups.classic.state import ClassicGroup
from mockbroker.groups.consumer.state import ConsumerGroup
from mockbroker.lab.simulation.watching import Watcher

OF_A_GROUP = 3  # deadlines that a group has beside those of its members


class NothingLeft(Watcher):
    name = "I13"

    def inspect(self, broker: Broker, now: float) -> None:
        for group_id in broker.groups:
            if (consumers := broker.groups.typed(group_id, ConsumerGroup)) is not None:
                self._of_consumers(consumers)
            if (classic := broker.groups.typed(group_id, ClassicGroup)) is not None:
                self._of_classic(classic)
        most = len(broker.groups) + len(broker.transactions) + len(broker.fetches.calls) + 1
        most += len(broker.loading) + len(broker.cluster.nodes)
        if len(broker.waits) > most:
            raise self.broken(f"{len(broker.waits)} deadlines for {most} that may have one")

    def _of_classic(self, group: ClassicGroup) -> None:
        parked = sum(member.join is not None for member in group.members.values())
        static = {m.instance_id: m.member_id for m in group.members.values() if m.instance_id is not None}
        for wrong, what in (
            (group.parked_joins != parked, "counts parked JoinGroups that are not there"),
            (group.static != static, "knows static members that are not there"),
            (len(group.waits) > len(group.members) + len(group.pending) + OF_A_GROUP, "has too many deadlines"),
            (any(name not in group.members for name in group.unsynced), "waits for a SyncGroup of who is not there"),
            (bool(group.members) and bool(group.leader) and group.leader not in group.members, "is led by nobody"),
            (any(count > len(group.members) for count in group.offered.values()), "counts protocols of nobody"),
        ):
            if wrong:
                raise self.broken(f"{group.group_id} {what}")

    def _of_consumers(self, group: ConsumerGroup) -> None:
        owned = {place: m.epoch for m in group.members.values() for place in m.assigned | m.revoking}
        for wrong, what in (
            (group.owners.keys() != owned.keys(), "has partitions of members that do not have them"),
            (len(group.waits) > 4 * len(group.members) + OF_A_GROUP, "has too many deadlines"),
            (any(name not in group.members for name in group.target), "has a target for who is not there"),
            (
                sum(group.names.values()) != sum(len(m.topics) for m in group.members.values()),
                "counts topics of nobody",
            ),
        ):
            if wrong:
                raise self.broken(f"{group.group_id} {what}")

    def emptied(self, broker: Broker, now: float) -> None:
        self.inspect(broker, now)
        for group in broker.groups.values():
            unused = group.unused_ids
            if len(group.waits) or unused or group.members:
                raise self.broken(f"of {group.group_id} {len(group.waits)} deadlines and {unused} ids are left")
            if group.offsets.pending:
                raise self.broken(f"of {group.group_id} offsets of transactions are left that nobody will end")
        left = [key for key in (*broker.groups, SWEEP) if key in broker.waits]
        if len(broker.waits) > len(left):
            raise self.broken(f"{len(broker.waits) - len(left)} deadlines are left of who is not there")
        if broker.fetches.calls:
            raise self.broken(f"{len(broker.fetches.calls)} fetches wait, and nobody is there")
