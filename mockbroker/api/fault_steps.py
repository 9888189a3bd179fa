"""The changes that presets make to a cluster, such as stopping a broker. The script of a preset makes each change at
its time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from mockbroker.api.operations import ClusterOperations
from mockbroker.broker import failover
from mockbroker.broker.broker import Broker
from mockbroker.faults.globs import compile_glob
from mockbroker.faults.preset import FreezeMetadata, LoseRecords, Phase, StopBroker
from mockbroker.faults.script import Step
from mockbroker.topics.model import INTERNAL, Partition


def step_of(cluster: ClusterOperations, broker: Broker, phase: Phase) -> Step:
    """Return the change that one phase of a preset makes, as one ``Step`` of the preset's script.

    The ``Step`` contains the function that makes the change, the function that undoes it (None for a loss of records,
    which cannot be undone), and the times of both.

    Args:
        cluster: The handle of the cluster, in its trio run.
        broker: The state of the cluster.
        phase: The change to make, such as stopping a broker.
    """
    match phase.change:
        case StopBroker(node):
            begin: Callable[[], object] = partial(cluster.stop_broker, node)
            end: Callable[[], object] | None = partial(cluster.start_broker, node)
            what = f"broker {node} is stopped", f"broker {node} is started"
        case FreezeMetadata(given, topic):
            node = _first_leader(broker, topic) if given is None else given
            begin = partial(_make_metadata_stale, cluster, broker, node, topic)
            end = partial(cluster.thaw_metadata, node)
            what = f"the metadata of broker {node} is frozen", f"the metadata of broker {node} is current again"
        case LoseRecords(topic, partition, count):
            begin, end = partial(cluster.lose_records, topic, partition, count), None
            what = f"{topic}-{partition} has an unclean leader", ""
    ends = None if phase.ends_ms is None else phase.ends_ms / 1000
    return Step(phase.begins_ms / 1000, ends, _without_result(begin), end and _without_result(end), what)


def _make_metadata_stale(cluster: ClusterOperations, broker: Broker, node: int, topic: str) -> None:
    """Make a broker return outdated metadata: freeze its metadata, then make live followers the leaders of its
    partitions.

    A partition without a live follower keeps its leader.

    Args:
        cluster: the handle of the cluster, in its trio run.
        broker: the state of the cluster.
        node: id of the broker.
        topic: glob of topic names. Only partitions of these topics get a new leader, without internal topics.

    Raises: FailoverError if the broker is not running.
    """
    failover.check_running(broker, node)
    cluster.freeze_metadata(node)
    for partition in _partitions(broker, topic):
        if partition.leader == node:
            cluster.move_leader(partition.topic, partition.index, failover.other_replica(broker, partition))


def _first_leader(broker: Broker, topic: str) -> int:
    """Return the id of the broker that leads the first matching partition with a live follower.

    The result is the lowest broker id if no matching partition has a live follower.

    Args:
        broker: the state of the cluster.
        topic: glob of topic names. The partitions of these topics match, without internal topics.
    """
    leaders = (
        each.leader for each in _partitions(broker, topic) if failover.other_replica(broker, each) != each.leader
    )
    return next(leaders, min(broker.cluster.broker_ids))


def _partitions(broker: Broker, topic: str) -> list[Partition]:
    """Return the partitions of the topics whose names match the glob ``topic``, without internal topics."""
    matches = compile_glob(topic)
    return [each for each in broker.cluster.partitions() if matches(each.topic) and each.topic not in INTERNAL]


def _without_result(call: Callable[[], object]) -> Callable[[], None]:
    def called() -> None:
        call()

    return called
