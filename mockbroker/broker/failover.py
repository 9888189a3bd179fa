"""The stop, loss and start of brokers, leader changes, and the failover of group coordinators.

A coordinator that loses the leadership of its partition of the offsets topic unloads the groups of that partition, and
fails their pending requests. The new coordinator rebuilds the groups from the records of the partition.

Source: Kafka's CoordinatorRuntime, ReplicationControlManager.
"""

from __future__ import annotations

from collections.abc import Iterable

from kwire import ErrorCode
from mockbroker.base.effects import Effects, Note
from mockbroker.base.errors import ConflictError, NotFoundError
from mockbroker.base.event_kinds import EventKind
from mockbroker.base.timers import CatchUpDue, LoadDue, LossDue, MoveDue
from mockbroker.broker.broker import Broker
from mockbroker.broker.fetch.completion import complete_delayed_fetches
from mockbroker.topics.configs import effective
from mockbroker.topics.log_dirs import Replica
from mockbroker.topics.model import NO_LEADER, OFFSETS_TOPIC, Partition, Topic


class FailoverError(ConflictError):
    """The error for an operation that the state of a broker does not allow, such as starting a running broker."""


class UnknownBrokerError(FailoverError, NotFoundError):
    """The error for a broker id that does not exist in the cluster."""


def move_leader(broker: Broker, partition: Partition, node: int, now: float) -> Effects:
    """Make an in-sync replica the leader of a partition.

    If ``node`` is the leader already, nothing changes.

    Args:
        broker: The state of the cluster.
        partition: The partition.
        node: Broker id of the new leader.
        now: The broker's time in seconds.

    Returns: the effects, such as responses and journal events.

    Raises: FailoverError if ``node`` is not a running in-sync replica.
    """
    if node not in (in_sync := broker.cluster.electable(partition)):
        raise FailoverError(
            f"broker {node} is not an in-sync replica of {partition.topic}-{partition.index} (in-sync: {in_sync})"
        )
    return [] if node == partition.leader else lead(broker, partition, node, now)


def stop_broker(broker: Broker, node: int, now: float) -> Effects:
    """Shut a broker down: other replicas take over its partitions.

    For the new leaders of the partitions, see ``handle_broker_loss``.

    Args:
        broker: The state of the cluster.
        node: Id of the broker.
        now: The broker's time in seconds.

    Returns: the effects, such as responses and journal events.

    Raises: FailoverError if the broker is not running.
    """
    return handle_broker_loss(broker, node, now)


def kill_broker(broker: Broker, node: int, now: float, noticed_after: float) -> Effects:
    """Kill a broker. Until the loss is detected, the metadata still shows the broker as leader of its partitions.

    Args:
        broker: The state of the cluster.
        node: Id of the killed broker.
        now: The broker's time in seconds.
        noticed_after: Seconds until the loss is detected; 0 to detect the loss immediately.

    Returns: the effects, such as responses and journal events.

    Raises: FailoverError if the broker is not running.
    """
    check_running(broker, node)
    broker.unload_shares(node)
    if noticed_after > 0:
        broker.deadlines.set(LossDue(node), now + noticed_after)
        led = [partition for partition in broker.cluster.topics[OFFSETS_TOPIC].partitions if partition.leader == node]
        return [effect for partition in led for effect in _unload(broker, partition)]
    return handle_broker_loss(broker, node, now)


def handle_broker_loss(broker: Broker, node: int, now: float) -> Effects:
    """Remove a broker from the running brokers, and elect new leaders of the partitions that it led.

    The new leader is the first in-sync replica whose broker is running. Without such a replica, the partition has no
    leader, unless ``unclean.leader.election.enable`` is true.

    Args:
        broker: the state of the cluster.
        node: id of the lost broker.
        now: the broker's time in seconds.

    Returns: the effects, such as responses and journal events.

    Raises: FailoverError if the broker is not running.
    """
    cluster = broker.cluster
    if node not in cluster.nodes:
        raise _not_running(broker, node)
    broker.deadlines.forget(LossDue(node))
    broker.unload_shares(node)
    cluster.down[node] = cluster.nodes.pop(node)
    cluster.epoch += 1
    effects: Effects = []
    for partition in cluster.partitions():
        if partition.leader == node:
            new_leader = next(iter(cluster.electable(partition)), NO_LEADER)
            effects += lead(broker, partition, new_leader, now)
            effects += _elect_if_leaderless(broker, partition, now)
    return effects


def elect_leaderless(broker: Broker, topics: Iterable[Topic], now: float) -> Effects:
    """Run an unclean election for each partition without a leader, in the topics that allow unclean elections.

    Args:
        broker: The state of the cluster.
        topics: Topics whose configurations have changed.
        now: The broker's time in seconds.

    Returns: the effects, such as responses and journal events.
    """
    return [
        effect
        for topic in topics
        for partition in topic.partitions
        for effect in _elect_if_leaderless(broker, partition, now)
    ]


def _elect_if_leaderless(broker: Broker, partition: Partition, now: float) -> Effects:
    """Elect any live replica as leader of a partition without a leader, if ``unclean.leader.election.enable`` is true.

    Args:
        broker: The state of the cluster.
        partition: The partition.
        now: The broker's time in seconds.

    Returns: the effects, such as responses and journal events.
    """
    configs = broker.cluster.topics[partition.topic].configs
    if not effective(configs, "unclean.leader.election.enable", broker.settings, broker.release):
        return []
    return elect(broker, partition, now, unclean=True)[1]


def start_broker(broker: Broker, node: int, now: float) -> Effects:
    """Start a stopped broker.

    The replicas of the broker are in sync immediately, except replicas that a reassignment has added and that have not
    caught up. The broker becomes the leader of the leaderless partitions for which it has an in-sync replica. For all
    remaining leaderless partitions, an unclean election is run if the configurations allow it.

    If the loss of a killed broker was not detected, the broker leads the same partitions as before, with new leader
    epochs.

    Args:
        broker: the state of the cluster.
        node: id of the broker.
        now: the broker's time in seconds.

    Returns: the effects, such as responses and journal events.

    Raises: FailoverError if the broker is running; UnknownBrokerError if it does not exist.
    """
    cluster = broker.cluster
    check_stopped(broker, node)
    if node in cluster.nodes:
        broker.deadlines.forget(LossDue(node))  # the loss of the broker was not noticed, but its groups are lost
        led = [partition for partition in cluster.partitions() if partition.leader == node]
        return [effect for partition in led for effect in lead(broker, partition, node, now)]
    cluster.nodes[node] = cluster.down.pop(node)
    cluster.unregistered.discard(node)
    cluster.nodes = dict(sorted(cluster.nodes.items()))
    cluster.epoch += 1
    effects: Effects = []
    for partition in cluster.partitions():
        if node in partition.replicas:
            for each in partition.catching_up:
                schedule_catch_up(broker, partition, each, now)
        if partition.leader == NO_LEADER:
            if node in cluster.electable(partition):
                effects += lead(broker, partition, node, now)
            else:
                effects += _elect_if_leaderless(broker, partition, now)
    return effects


def schedule_catch_up(broker: Broker, partition: Partition, node: int, now: float) -> None:
    """Schedule the time at which a new replica joins the in-sync replicas.

    Args:
        broker: The state of the cluster.
        partition: The partition.
        node: Broker id.
        now: The broker's time in seconds.
    """
    topic_id = broker.cluster.topics[partition.topic].topic_id
    at = now + broker.settings.mockbroker_replica_catch_up_ms / 1000
    broker.deadlines.set(CatchUpDue(topic_id, partition.index, node), at)


def schedule_move(broker: Broker, replica: Replica, now: float) -> None:
    """Schedule the time at which a replica has moved to its new log directory.

    Args:
        broker: The state of the cluster.
        replica: The replica.
        now: The broker's time in seconds.
    """
    at = now + broker.settings.mockbroker_replica_catch_up_ms / 1000
    broker.deadlines.set(MoveDue(replica.topic_id, replica.partition, replica.node), at)


def complete_load(broker: Broker, index: int, now: float) -> Effects:
    """Load the groups of a partition of ``__consumer_offsets`` from its records.

    The broker calls this function at the end of the simulated loading time.

    Args:
        broker: The state of the cluster.
        index: Index of the partition.
        now: The broker's time in seconds.

    Returns: the effects, such as responses and journal events.

    Raises: DecodeError if a record is not valid.
    """
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
    """Load all transactions, share states and groups from the logs of a cluster that was stopped.

    The deadlines of the cluster are set again: token expiry, retention, compaction, and replicas that catch up or are
    moved to another log directory.

    Args:
        broker: The state of the cluster.
        now: The broker's time in seconds.

    Returns: the effects, such as responses and journal events.

    Raises: DecodeError if a record is not valid.
    """
    broker.load_transactions(now)
    broker.load_share_states()
    broker.schedule_token_sweep(now)
    broker.logs.schedule(broker.cluster.topics.values(), now)
    for partition in broker.cluster.partitions():
        for node in partition.catching_up:
            schedule_catch_up(broker, partition, node, now)
    for replica in broker.log_dirs.future:
        schedule_move(broker, replica, now)
    effects: Effects = []
    for partition in broker.cluster.topics[OFFSETS_TOPIC].partitions:
        effects += complete_load(broker, partition.index, now)
    return effects


def elect(broker: Broker, partition: Partition, now: float, *, unclean: bool) -> tuple[ErrorCode, Effects]:
    """Elect a leader of a partition: the preferred replica, or the first live replica in an unclean election.

    If an unclean election elects a paused replica, the log is truncated: the records that the replica has not fetched
    are lost.

    Args:
        broker: the state of the cluster.
        partition: the partition.
        now: the broker's time in seconds.
        unclean: True for an unclean election, which is only possible if the partition has no leader.

    Returns: the error code, and the effects. The error codes are NONE, ELECTION_NOT_NEEDED,
        PREFERRED_LEADER_NOT_AVAILABLE and ELIGIBLE_LEADERS_NOT_AVAILABLE.
    """
    preferred = partition.replicas[0]
    if partition.leader == preferred or (unclean and partition.leader != NO_LEADER):
        return ErrorCode.ELECTION_NOT_NEEDED, []
    if unclean:
        live = next((node for node in partition.replicas if node in broker.cluster.nodes), None)
        if live is None:
            return ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, []
        partition.catching_up -= {live}
        if live in partition.paused:
            partition.truncate(max(partition.paused.pop(live), partition.log.start))
        return ErrorCode.NONE, lead(broker, partition, live, now)
    if preferred not in broker.cluster.electable(partition):
        return ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, []
    return ErrorCode.NONE, lead(broker, partition, preferred, now)


def elect_unclean(broker: Broker, partition: Partition, lost: int, now: float) -> Effects:
    """Elect a leader whose log does not contain the last records of a partition.

    The new leader is a running in-sync follower; without such a follower, it is the old leader. The offsets of lost
    records are assigned again to new records. Committed offsets are not changed, so they may be after the end of the
    log. Source: Kafka's unclean.leader.election.enable.

    Args:
        broker: The state of the cluster.
        partition: The partition.
        lost: Number of records at the end of the log that are lost.
        now: The broker's time in seconds.

    Returns: the effects, such as responses and journal events.
    """
    partition.truncate(max(partition.log.end - lost, partition.log.start))
    return lead(broker, partition, other_replica(broker, partition), now)


def other_replica(broker: Broker, partition: Partition) -> int:
    """Return the broker id of the first running in-sync replica that is not the leader.

    Without such a replica, return the id of the leader.

    Args:
        broker: the state of the cluster.
        partition: the partition.
    """
    others = (node for node in broker.cluster.electable(partition) if node != partition.leader)
    return next(others, partition.leader)


def is_running(broker: Broker, node: int) -> bool:
    """Return whether a broker is running; False also for a killed broker whose loss is not detected yet.

    Args:
        broker: The state of the cluster.
        node: Id of the broker.
    """
    return node in broker.cluster.nodes and LossDue(node) not in broker.deadlines


def check_running(broker: Broker, node: int) -> None:
    """Raise an error if a broker is not running.

    Args:
        broker: The state of the cluster.
        node: Id of the broker.

    Raises: FailoverError if the broker is not running.
    """
    if not is_running(broker, node):
        raise _not_running(broker, node)


def check_stopped(broker: Broker, node: int) -> None:
    """Raise an error if a broker is running.

    Args:
        broker: the state of the cluster.
        node: id of the broker.

    Raises: FailoverError if the broker is running; UnknownBrokerError if it does not exist.
    """
    check_exists(broker, node)
    if is_running(broker, node):
        raise FailoverError(f"broker {node} is already running")


def check_exists(broker: Broker, node: int) -> None:
    """Raise UnknownBrokerError if a broker does not exist, running or stopped.

    Args:
        broker: the state of the cluster.
        node: id of the broker.
    """
    ids = sorted({*broker.cluster.nodes, *broker.cluster.down})
    if node not in ids:
        raise UnknownBrokerError(f"broker {node} does not exist (broker ids: {', '.join(map(str, ids))})")


def _not_running(broker: Broker, node: int) -> FailoverError:
    check_exists(broker, node)
    return FailoverError(f"broker {node} is not running: start it first")


def lead(broker: Broker, partition: Partition, node: int, now: float) -> Effects:
    """Make a broker the leader of a partition, with a new leader epoch.

    Share partitions of the old leader are unloaded, and delayed fetches are completed. For a partition of
    ``__consumer_offsets``, the groups are unloaded. If the partition has a leader, they are loaded again after
    ``mockbroker.coordinator.load.ms``.

    Args:
        broker: the state of the cluster.
        partition: the partition.
        node: broker id of the new leader, which may be the current leader; NO_LEADER for a partition without a leader.
        now: the broker's time in seconds.

    Returns: the effects, such as responses and journal events.
    """
    effects: Effects = []
    if partition.topic == OFFSETS_TOPIC:
        effects += _unload(broker, partition)
    broker.share_partitions.unload_partition(broker.cluster.topics[partition.topic].topic_id, partition.index)
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
    """Unload the groups of a partition of ``__consumer_offsets``.

    Return the effects: the responses to the pending requests of the groups, and journal events.

    Source: Kafka's GroupMetadataManager.onUnloaded.
    """
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
