"""The checker of invariant I13, which is about the size of the broker's state.

The limit depends on the number of clients. Without clients, the state is removed.
"""

from __future__ import annotations

from mockbroker.base.timers import OF_LOGS, SWEEP, TRANSACTIONAL_IDS, CatchUpDue, StageDue
from mockbroker.broker.broker import Broker
from mockbroker.groups.classic.state import ClassicGroup
from mockbroker.groups.consumer.state import (
    ConsumerGroup,
)
from mockbroker.groups.streams.state import (
    StreamsGroup,
)
from mockbroker.lab.simulation.watching import Watcher

OF_A_GROUP = 3  # maximum number of deadlines of a group, not counting the deadlines of members


class NothingLeft(Watcher):
    """The checker of invariant I13: the broker's state does not grow without limit, and is removed with the last
    client.

    The checker compares the numbers of deadlines, members and pending requests with limits that depend on the number
    of clients.
    """

    name = "I13"

    def inspect(self, broker: Broker, now: float) -> None:
        for group_id in broker.groups:
            if (consumers := broker.groups.get_as(group_id, ConsumerGroup)) is not None:
                self._of_consumers(consumers)
            if (streams := broker.groups.get_as(group_id, StreamsGroup)) is not None:
                self._of_streams(streams)
            if (classic := broker.groups.get_as(group_id, ClassicGroup)) is not None:
                self._of_classic(classic)
        most = len(broker.groups) + len(broker.transactions) + len(broker.fetch_purgatory.pending) + 1
        most += len(broker.loading) + len(broker.cluster.nodes) + len(broker.share_partitions.loaded)
        most += sum(isinstance(key, (StageDue, CatchUpDue)) for key in broker.deadlines)  # fault rules, reassignments
        if _deadlines(broker) > most:
            raise self.broken(f"the broker has {_deadlines(broker)} deadlines, above the limit of {most}")

    def _of_classic(self, group: ClassicGroup) -> None:
        parked = sum(member.pending_join is not None for member in group.members.values())
        static = {m.instance_id: m.member_id for m in group.members.values() if m.instance_id is not None}
        most = len(group.members) + len(group.pending_members) + OF_A_GROUP
        for wrong, what in (
            (
                group.pending_join_count != parked,
                f"counts {group.pending_join_count} pending JoinGroups, but {parked} members have one",
            ),
            (
                group.static_members != static,
                f"has the static members {group.static_members}, but its members have the instance ids {static}",
            ),
            (len(group.timers) > most, f"has {len(group.timers)} deadlines, above the limit of {most}"),
            (
                any(name not in group.members for name in group.pending_sync_members),
                "waits for the SyncGroup of a non-member",
            ),
            (
                bool(group.members) and bool(group.leader) and group.leader not in group.members,
                f"has the leader {group.leader}, which is not a member",
            ),
            (
                any(count > len(group.members) for count in group.supported_protocols.values()),
                "counts protocols of non-members",
            ),
        ):
            if wrong:
                raise self.broken(f"the state of group {group.group_id} is inconsistent: it {what}")

    def _of_consumers(self, group: ConsumerGroup) -> None:
        owned = {place: m.epoch for m in group.members.values() for place in m.assigned | m.pending_revocation}
        most = 4 * len(group.members) + OF_A_GROUP
        for wrong, what in (
            (
                group.partition_epochs.keys() != owned.keys(),
                "has a map of partition owners that differs from its members' assignments",
            ),
            (len(group.timers) > most, f"has {len(group.timers)} deadlines, above the limit of {most}"),
            (any(name not in group.members for name in group.target), "has a target assignment for a non-member"),
            (
                sum(group.subscribed_names.values()) != sum(len(m.topics) for m in group.members.values()),
                "counts topics of non-members",
            ),
        ):
            if wrong:
                raise self.broken(f"the state of group {group.group_id} is inconsistent: it {what}")

    def _of_streams(self, group: StreamsGroup) -> None:
        held = {task for m in group.members.values() for task in (*m.assigned.active, *m.pending_revocation.active)}
        most = 2 * len(group.members) + OF_A_GROUP
        for wrong, what in (
            (group.owners.active.keys() != held, "has a map of task owners that differs from its members' tasks"),
            (len(group.timers) > most, f"has {len(group.timers)} deadlines, above the limit of {most}"),
            (any(name not in group.members for name in group.target), "has a target assignment for a non-member"),
        ):
            if wrong:
                raise self.broken(f"the state of group {group.group_id} is inconsistent: it {what}")

    def emptied(self, broker: Broker, now: float) -> None:
        self.inspect(broker, now)
        for group in broker.groups.values():
            unused = group.pending_member_count
            if len(group.timers) or unused or group.members:
                raise self.broken(
                    f"group {group.group_id} is not empty after all clients have left: {len(group.members)} members, "
                    f"{len(group.timers)} deadlines, {unused} pending member ids"
                )
            if group.offsets.pending_transactional:
                raise self.broken(
                    f"group {group.group_id} still has pending offsets of a "
                    "transaction after all producers have stopped"
                )
        left = [key for key in (*broker.groups, SWEEP) if key in broker.deadlines]
        if (deadlines := _deadlines(broker)) > len(left):
            raise self.broken(f"the broker has {deadlines - len(left)} deadlines that belong to no group")
        if len(broker.share_fetch_purgatory.pending) or broker.share_fetch_purgatory.watchers:
            raise self.broken("ShareFetch requests are pending after all clients have stopped")
        if broker.share_partitions.loaded or any(len(sessions) for _, sessions in broker.all_share_sessions()):
            raise self.broken("the broker still has share partitions or share sessions after all clients have stopped")
        if broker.fetch_purgatory.pending:
            raise self.broken(
                f"{len(broker.fetch_purgatory.pending)} Fetch requests are pending after all clients have stopped"
            )


def _deadlines(broker: Broker) -> int:
    """Return the number of deadlines of the broker that exist because of clients.

    Deadlines for checks of logs and for the expiration of transactional ids are not counted, because they exist without
    clients.
    """
    of_logs = [key for key in broker.deadlines if isinstance(key, OF_LOGS)]
    assert all(key.topic_id in broker.cluster.by_id for key in of_logs), "a deleted topic has a deadline"
    return len(broker.deadlines) - len(of_logs) - (TRANSACTIONAL_IDS in broker.deadlines)
