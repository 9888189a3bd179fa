"""The checker of invariant I13, which is about the size of the broker's state.

The limit depends on the number of clients. Without clients, the state is removed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mockbroker.base.timers import OF_LOGS, SWEEP, TOKEN_SWEEP, TRANSACTIONAL_IDS, CatchUpDue, MoveDue, StageDue
from mockbroker.broker.broker import Broker
from mockbroker.groups.classic.state import ClassicGroup
from mockbroker.groups.consumer.state import ConsumerGroup
from mockbroker.groups.coordinated import CoordinatedGroup
from mockbroker.groups.partition_sets import TopicIdPartition
from mockbroker.groups.streams.state import StreamsGroup
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
        for group in broker.groups.values():
            check = _OF_TYPE.get(type(group))
            if check is not None and (why := check(group)):
                raise self.broken(f"the state of group {group.group_id} is inconsistent: it {why}")
        most = len(broker.groups) + len(broker.transactions) + len(broker.fetch_purgatory.pending) + 1
        most += len(broker.loading) + len(broker.cluster.nodes) + len(broker.share_partitions.loaded)
        of_rules_and_replicas = StageDue, CatchUpDue, MoveDue
        most += sum(isinstance(key, of_rules_and_replicas) for key in broker.deadlines)
        if (deadlines := _deadlines(broker)) > most:
            raise self.broken(f"the broker has {deadlines} deadlines, above the limit of {most}")

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
                    f"group {group.group_id} still has pending offsets of a transaction after all producers have "
                    "stopped"
                )
        if len(broker.cluster.tokens):
            raise self.broken(f"{len(broker.cluster.tokens)} delegation tokens are left after all have expired")
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


def _of_classic(group: ClassicGroup) -> str:
    members = group.members
    pending, static = 0, {}
    for member in members.values():
        pending += member.pending_join is not None
        if member.instance_id is not None:
            static[member.instance_id] = member.member_id
    most = len(members) + len(group.pending_members) + OF_A_GROUP
    if group.pending_join_count != pending:
        return f"counts {group.pending_join_count} pending JoinGroups, but {pending} members have one"
    if group.static_members != static:
        return f"has the static members {group.static_members}, but its members have the instance ids {static}"
    if len(group.timers) > most:
        return f"has {len(group.timers)} deadlines, above the limit of {most}"
    if any(name not in members for name in group.pending_sync_members):
        return "waits for the SyncGroup of a non-member"
    if members and group.leader and group.leader not in members:
        return f"has the leader {group.leader}, which is not a member"
    if any(count > len(members) for count in group.supported_protocols.values()):
        return "counts protocols of non-members"
    return ""


def _of_consumers(group: ConsumerGroup) -> str:
    owned: set[TopicIdPartition] = set()
    topics = 0
    for member in group.members.values():
        owned.update(member.assigned, member.pending_revocation)
        topics += len(member.topics)
    most = 4 * len(group.members) + OF_A_GROUP
    if group.partition_epochs.keys() != owned:
        return "has a map of partition owners that differs from its members' assignments"
    if len(group.timers) > most:
        return f"has {len(group.timers)} deadlines, above the limit of {most}"
    if any(name not in group.members for name in group.target):
        return "has a target assignment for a non-member"
    if sum(group.subscribed_names.values()) != topics:
        return "counts topics of non-members"
    return ""


def _of_streams(group: StreamsGroup) -> str:
    held = {task for m in group.members.values() for task in (*m.assigned.active, *m.pending_revocation.active)}
    most = 2 * len(group.members) + OF_A_GROUP
    if group.owners.active.keys() != held:
        return "has a map of task owners that differs from its members' tasks"
    if len(group.timers) > most:
        return f"has {len(group.timers)} deadlines, above the limit of {most}"
    if any(name not in group.members for name in group.target):
        return "has a target assignment for a non-member"
    return ""


# Functions that return what is inconsistent in a group of a type, or "".
_OF_TYPE: Mapping[type[CoordinatedGroup], Callable[[Any], str]] = {
    ConsumerGroup: _of_consumers,
    StreamsGroup: _of_streams,
    ClassicGroup: _of_classic,
}


def _deadlines(broker: Broker) -> int:
    """Return the number of deadlines of the broker that exist because of clients.

    Deadlines for checks of logs and for the expiration of transactional ids and delegation tokens are not counted,
    because they exist without clients.
    """
    by_id, of_logs = broker.cluster.by_id, 0
    for key in broker.deadlines:
        if isinstance(key, OF_LOGS):
            assert key.topic_id in by_id, "a deleted topic has a deadline"
            of_logs += 1
    return len(broker.deadlines) - of_logs - sum(key in broker.deadlines for key in (TRANSACTIONAL_IDS, TOKEN_SWEEP))
