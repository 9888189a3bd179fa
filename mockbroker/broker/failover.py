"""Brokers that come and go, and leaders that move: what becomes of the groups whose coordinator that is.

A coordinator that loses its partition of the offsets topic forgets the groups in it; whoever waited is told. The next
one makes them of what is written there and of nothing else.
Source: Kafka's CoordinatorRuntime, ReplicationControlManager.
"""

from __future__ import annotations

from kwire import ErrorCode
from mockbroker.base.effects import Effects, Note
from mockbroker.base.event_kinds import EventKind
from mockbroker.base.timers import LoadDue, LossDue
from mockbroker.broker.broker import Broker
from mockbroker.broker.fetch.delayed_fetch import complete_delayed_fetches
from mockbroker.topics.model import NO_LEADER, OFFSETS_TOPIC, Partition


class FailoverError(ValueError):
    """A broker that cannot do what is asked of it."""


def move_leader(broker: Broker, partition: Partition, node: int, now: float) -> Effects:
    """Another broker leads a partition, which must be in sync. Raises: FailoverError."""
    if node not in broker.cluster.nodes or node not in partition.replicas:
        there = [each for each in partition.replicas if each in broker.cluster.nodes]
        raise FailoverError(
            f"broker {node} cannot lead {partition.topic} {partition.index}: only {there or 'nobody'} can"
        )
    return [] if node == partition.leader else _lead(broker, partition, node, now)


def stop_broker(broker: Broker, node: int, now: float) -> Effects:
    """A broker is about to end: others take over first what it leads. Raises: FailoverError."""
    return handle_broker_loss(broker, node, now)


def kill_broker(broker: Broker, node: int, now: float, noticed_after: float) -> Effects:
    """A broker is gone. Until that is noticed it still counts as the leader of what it led; ``noticed_after``: seconds.

    Raises: FailoverError.
    """
    check_running(broker, node)
    if noticed_after > 0:
        broker.deadlines.set(LossDue(node), now + noticed_after)
        led = [each for each in broker.cluster.topics[OFFSETS_TOPIC].partitions if each.leader == node]
        return [effect for each in led for effect in _unload(broker, each)]
    return handle_broker_loss(broker, node, now)


def handle_broker_loss(broker: Broker, node: int, now: float) -> Effects:
    """A broker is away: the first replica that is there leads what it led. Raises: FailoverError if it was already."""
    cluster = broker.cluster
    if node not in cluster.nodes:
        raise FailoverError(f"there is no broker {node} that runs")
    broker.deadlines.forget(LossDue(node))
    cluster.down[node] = cluster.nodes.pop(node)
    cluster.epoch += 1
    effects: Effects = []
    for partition in cluster.partitions():
        if partition.leader == node:
            new_leader = next((each for each in partition.replicas if each in cluster.nodes), NO_LEADER)
            effects += _lead(broker, partition, new_leader, now)
    return effects


def start_broker(broker: Broker, node: int, now: float) -> Effects:
    """A broker is back, in sync at once. It leads what nobody led. Raises: FailoverError."""
    cluster = broker.cluster
    check_stopped(broker, node)
    if node in cluster.nodes:
        broker.deadlines.forget(LossDue(node))  # it is back before anybody noticed; what it led it has to read again
        led = [each for each in cluster.partitions() if each.leader == node]
        return [effect for each in led for effect in _lead(broker, each, node, now)]
    cluster.nodes[node] = cluster.down.pop(node)
    cluster.nodes = dict(sorted(cluster.nodes.items()))
    cluster.epoch += 1
    leaderless = [each for each in broker.cluster.partitions() if each.leader == NO_LEADER and node in each.replicas]
    return [effect for each in leaderless for effect in _lead(broker, each, node, now)]


def complete_load(broker: Broker, index: int, now: float) -> Effects:
    """The coordinator of a partition of the offsets topic has read it; its groups are there again."""
    groups = broker.load_groups(index, now)
    effects: Effects = [
        Note(
            event=EventKind.LOAD,
            group=group.group_id,
            generation=group.generation,
            members=tuple(group.members),
            reason=f"by broker {broker.cluster.topics[OFFSETS_TOPIC].partitions[index].leader}",
        )
        for group in groups
    ]
    for group in groups:
        if found := broker.groups.types.of(group).load(group, now):
            effects += found
            broker.groups.load(group)
    return effects


def recover(broker: Broker, now: float) -> Effects:
    """A cluster begins with the logs of one that ended: everything is as it is written there."""
    broker.load_transactions(now)
    effects: Effects = []
    for partition in broker.cluster.topics[OFFSETS_TOPIC].partitions:
        if partition.log.end > partition.log.start:
            effects += complete_load(broker, partition.index, now)
    return effects


def elect(broker: Broker, partition: Partition, now: float, *, unclean: bool) -> tuple[ErrorCode, Effects]:
    """The preferred replica is to lead; ``unclean``: any, if nobody does. All that are there are in sync."""
    preferred = partition.replicas[0]
    if partition.leader == preferred or (unclean and partition.leader != NO_LEADER):
        return ErrorCode.ELECTION_NOT_NEEDED, []
    if unclean:
        return ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, []
    if preferred not in broker.cluster.nodes:
        return ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, []
    return ErrorCode.NONE, _lead(broker, partition, preferred, now)


def check_running(broker: Broker, node: int) -> None:
    """Raises: FailoverError if the broker has ended, noticed or not."""
    if node not in broker.cluster.nodes or LossDue(node) in broker.deadlines:
        raise FailoverError(f"there is no broker {node} that runs")


def check_stopped(broker: Broker, node: int) -> None:
    """Raises: FailoverError unless the broker has ended, noticed or not."""
    if node in broker.cluster.nodes and LossDue(node) not in broker.deadlines:
        raise FailoverError(f"broker {node} runs")
    if node not in broker.cluster.nodes and node not in broker.cluster.down:
        raise FailoverError(f"there is no broker {node}")


def _lead(broker: Broker, partition: Partition, node: int, now: float) -> Effects:
    effects: Effects = []
    if partition.topic == OFFSETS_TOPIC:
        effects += _unload(broker, partition)
    broker.cluster.set_leader(partition, node)
    effects += complete_delayed_fetches(broker, [partition])
    if partition.topic == OFFSETS_TOPIC and node != NO_LEADER:
        broker.loading.add(partition.index)
        delay = broker.settings.mockbroker_coordinator_load_ms / 1000
        if delay:
            broker.deadlines.set(LoadDue(partition.index), now + delay)
        else:
            effects += complete_load(broker, partition.index, now)
    return effects


def _unload(broker: Broker, partition: Partition) -> Effects:
    """The groups of a partition are forgotten. Source: GroupMetadataManager.onUnloaded."""
    broker.deadlines.forget(LoadDue(partition.index))
    broker.loading.discard(partition.index)
    effects: Effects = []
    for group in broker.groups_of(partition.index):
        effects += broker.groups.types.of(group).unload(group)
        effects.append(Note(event=EventKind.UNLOAD, group=group.group_id, reason=f"broker {partition.leader} led it"))
        broker.unload_group(group.group_id)
    return effects
