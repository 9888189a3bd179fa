"""The changes of presets to a cluster, as steps of a script."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from mockbroker.api.operations import ClusterOperations
from mockbroker.broker import failover
from mockbroker.broker.broker import Broker
from mockbroker.faults.globs import compile_glob
from mockbroker.faults.preset import FreezeMetadata, LoseRecords, Phase, StopBroker
from mockbroker.faults.script import Step
from mockbroker.topics.model import INTERNAL


def step_of(cluster: ClusterOperations, broker: Broker, phase: Phase) -> Step:
    """Return the step that carries out a phase of a preset.

    Args:
        cluster: The handle of the cluster, in its trio run.
        broker: The state of the cluster.
        phase: The phase.
    """
    match phase.change:
        case StopBroker(node):
            begin: Callable[[], object] = partial(cluster.stop_broker, node)
            end: Callable[[], object] | None = partial(cluster.start_broker, node)
            what = f"broker {node} is stopped", f"broker {node} is started"
        case FreezeMetadata(given, topic):
            node = min(broker.cluster.broker_ids) if given is None else given
            begin = partial(_make_metadata_stale, cluster, broker, node, topic)
            end = partial(cluster.thaw_metadata, node)
            what = f"the metadata of broker {node} is frozen", f"the metadata of broker {node} is current again"
        case LoseRecords(topic, partition, count):
            begin, end = partial(cluster.lose_records, topic, partition, count), None
            what = f"{topic}-{partition} has an unclean leader", ""
    ends = None if phase.ends_ms is None else phase.ends_ms / 1000
    return Step(phase.begins_ms / 1000, ends, _without_result(begin), end and _without_result(end), what)


def _make_metadata_stale(cluster: ClusterOperations, broker: Broker, node: int, topic: str) -> None:
    """Freeze the metadata of a broker, and then change the leaders of partitions that have another live replica."""
    failover.check_running(broker, node)
    cluster.freeze_metadata(node)
    matches = compile_glob(topic)
    for partition in broker.cluster.partitions():
        if matches(partition.topic) and partition.topic not in INTERNAL:
            cluster.move_leader(partition.topic, partition.index, failover.other_replica(broker, partition))


def _without_result(call: Callable[[], object]) -> Callable[[], None]:
    def called() -> None:
        call()

    return called
