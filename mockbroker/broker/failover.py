"""Leader changes, the stop, loss and start of brokers, and the failover of group coordinators.

A coordinator that loses the leadership of its partition of the offsets topic unloads the groups of that partition, and
fails their pending requests. The new coordinator rebuilds the groups from the records of the partition alone.
Source: Kafka's CoordinatorRuntime, ReplicationControlManager.
"""

from __future__ import annotations

from kwire import ErrorCode
from mockbroker.base.effects import Effects, Note
from mockbroker.base.errors import ConflictError, NotFoundError
from mockbroker.base.event_kinds import EventKind
from mockbroker.base.timers import LoadDue, LossDue
from mockbroker.broker.broker import Broker
from mockbroker.broker.fetch.delayed_fetch import complete_delayed_fetches
from mockbroker.topics.model import NO_LEADER, OFFSETS_TOPIC, Partition


class FailoverError(ConflictError):
    """Raised for an operation that is not possible in the present state of a broker, such as to start a running one."""


class UnknownBrokerError(FailoverError, NotFoundError):
    """The cluster has no broker with this id."""


def move_leader(broker: Broker, partition: Partition, node: int, now: float) -> Effects:
    """Make an in-sync replica the leader of a partition. ``node``: its broker id. Raises: FailoverError."""
    if node not in broker.cluster.nodes or node not in partition.replicas:
        in_sync = [replica for replica in partition.replicas if replica in broker.cluster.nodes]
        raise FailoverError(
            f"broker {node} is not an in-sync replica of {partition.topic}-{partition.index} (in-sync: {in_sync})"
        )
    return [] if node == partition.leader else _lead(broker, partition, node, now)


def stop_broker(broker: Broker, node: int, now: float) -> Effects:
    """Shut a broker down: other replicas become the leaders of the partitions that it leads. Raises: FailoverError."""
    return handle_broker_loss(broker, node, now)


def kill_broker(broker: Broker, node: int, now: float, noticed_after: float) -> Effects:
    """Kill a broker. It remains the leader of its partitions in the metadata until its loss is noticed.

    Args:
        broker: The state of the cluster.
        node: Id of the killed broker.
        now: The broker's time in seconds.
        noticed_after: Seconds until the loss is noticed.

    Raises: FailoverError.
    """
    check_running(broker, node)
    if noticed_after > 0:
        broker.deadlines.set(LossDue(node), now + noticed_after)
        led = [partition for partition in broker.cluster.topics[OFFSETS_TOPIC].partitions if partition.leader == node]
        return [effect for partition in led for effect in _unload(broker, partition)]
    return handle_broker_loss(broker, node, now)


def handle_broker_loss(broker: Broker, node: int, now: float) -> Effects:
    """Make the first live replica the leader of each partition that a lost broker led. Raises: FailoverError."""
    cluster = broker.cluster
    if node not in cluster.nodes:
        raise _not_running(broker, node)
    broker.deadlines.forget(LossDue(node))
    cluster.down[node] = cluster.nodes.pop(node)
    cluster.epoch += 1
    effects: Effects = []
    for partition in cluster.partitions():
        if partition.leader == node:
            new_leader = next((replica for replica in partition.replicas if replica in cluster.nodes), NO_LEADER)
            effects += _lead(broker, partition, new_leader, now)
    return effects


def start_broker(broker: Broker, node: int, now: float) -> Effects:
    """Start a stopped broker, in sync at once, as leader of its partitions without leader. Raises: FailoverError."""
    cluster = broker.cluster
    check_stopped(broker, node)
    if node in cluster.nodes:
        broker.deadlines.forget(LossDue(node))  # the loss of the broker was not noticed, but its groups are lost
        led = [partition for partition in cluster.partitions() if partition.leader == node]
        return [effect for partition in led for effect in _lead(broker, partition, node, now)]
    cluster.nodes[node] = cluster.down.pop(node)
    cluster.nodes = dict(sorted(cluster.nodes.items()))
    cluster.epoch += 1
    partitions = broker.cluster.partitions()
    leaderless = [each for each in partitions if each.leader == NO_LEADER and node in each.replicas]
    return [effect for partition in leaderless for effect in _lead(broker, partition, node, now)]


def complete_load(broker: Broker, index: int, now: float) -> Effects:
    """Rebuild the groups of partition ``index`` of the offsets topic from its records, at the end of its loading."""
    groups = broker.load_groups(index, now)
    effects: Effects = [
        Note(
            event=EventKind.LOAD,
            group=group.group_id,
            generation=group.generation,
            members=tuple(group.members),
            reason=f"loaded by broker {broker.cluster.topics[OFFSETS_TOPIC].partitions[index].leader}",
        )
        for group in groups
    ]
    for group in groups:
        if load_effects := broker.groups.types.of(group).load(group, now):
            effects += load_effects
            broker.groups.load(group)
    return effects


def recover(broker: Broker, now: float) -> Effects:
    """Rebuild all transactions and groups from the logs of a cluster that was stopped."""
    broker.load_transactions(now)
    effects: Effects = []
    for partition in broker.cluster.topics[OFFSETS_TOPIC].partitions:
        if partition.log.end > partition.log.start:
            effects += complete_load(broker, partition.index, now)
    return effects


def elect(broker: Broker, partition: Partition, now: float, *, unclean: bool) -> tuple[ErrorCode, Effects]:
    """Elect the preferred leader of a partition; return the error and the effects.

    An unclean election never changes the leader: all live replicas are in sync, so a partition without a leader has no
    live replica. The error is then ELIGIBLE_LEADERS_NOT_AVAILABLE, else ELECTION_NOT_NEEDED.
    """
    preferred = partition.replicas[0]
    if partition.leader == preferred or (unclean and partition.leader != NO_LEADER):
        return ErrorCode.ELECTION_NOT_NEEDED, []
    if unclean:
        return ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, []
    if preferred not in broker.cluster.nodes:
        return ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, []
    return ErrorCode.NONE, _lead(broker, partition, preferred, now)


def elect_unclean(broker: Broker, partition: Partition, lost: int, now: float) -> Effects:
    """Make a replica the leader that lacks the last records, or the same broker if there is no other live replica.

    Offsets of the lost records are assigned again. Committed offsets are not changed, so they may be after the end of
    the log. Source: Kafka's unclean.leader.election.enable.

    Args:
        broker: The state of the cluster.
        partition: The partition, not of an internal topic.
        lost: Number of records that are lost; more if a batch contains the first of them, at most all.
        now: The broker's time in seconds.
    """
    partition.truncate(max(partition.log.end - lost, partition.log.start))
    return _lead(broker, partition, other_replica(broker, partition), now)


def other_replica(broker: Broker, partition: Partition) -> int:
    """Return the first live replica that is not the leader; the leader if there is no other."""
    others = (node for node in partition.replicas if node in broker.cluster.nodes and node != partition.leader)
    return next(others, partition.leader)


def check_running(broker: Broker, node: int) -> None:
    """Check that a broker is running. Raises: FailoverError."""
    if node not in broker.cluster.nodes or LossDue(node) in broker.deadlines:
        raise _not_running(broker, node)


def check_stopped(broker: Broker, node: int) -> None:
    """Check that a broker was stopped or killed. Raises: FailoverError."""
    if node in broker.cluster.nodes and LossDue(node) not in broker.deadlines:
        raise FailoverError(f"broker {node} is already running")
    if node not in broker.cluster.nodes and node not in broker.cluster.down:
        raise _not_running(broker, node)


def _not_running(broker: Broker, node: int) -> FailoverError:
    ids = sorted({*broker.cluster.nodes, *broker.cluster.down})
    if node not in ids:
        return UnknownBrokerError(f"broker {node} does not exist (broker ids: {', '.join(map(str, ids))})")
    return FailoverError(f"broker {node} is not running: start it first")


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
    """Unload the groups of a partition of the offsets topic. Source: Kafka's GroupMetadataManager.onUnloaded."""
    broker.deadlines.forget(LoadDue(partition.index))
    broker.loading.discard(partition.index)
    effects: Effects = []
    for group in broker.groups_of(partition.index):
        effects += broker.groups.types.of(group).unload(group)
        effects.append(
            Note(event=EventKind.UNLOAD, group=group.group_id, reason=f"unloaded by broker {partition.leader}")
        )
        broker.unload_group(group.group_id)
    return effects
