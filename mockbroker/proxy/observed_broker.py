"""The state of the real cluster, learned from the traffic of the proxy.

Fault rules and the control API read this state as they read the state of a mockbroker cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from uuid import UUID

from kwire import ErrorCode
from kwire.messages.fetch import FetchResponse
from kwire.messages.metadata import MetadataResponse
from kwire.schema import ZERO_UUID
from mockbroker.base.settings import Settings
from mockbroker.broker.broker import Broker
from mockbroker.proxy.addresses import Address
from mockbroker.proxy.fetch_sessions import ObservedFetchSessions
from mockbroker.proxy.observed_groups import ObservedTypes
from mockbroker.topics.log import UNKNOWN_END
from mockbroker.topics.model import NO_LEADER, OFFSETS_TOPIC, ClusterState, Node, Partition, Topic

SLICE = 1_000  # partitions of a slice


class ObservedState(ClusterState):
    """The brokers and topics of the real cluster, learned from Metadata responses.

    Attributes:
        real_cluster_id: cluster id of the real cluster; "" before the first Metadata response.
    """

    real_cluster_id = ""

    @property
    def cluster_text(self) -> str:
        return self.real_cluster_id


class ObservedBroker(Broker):
    """The proxy's model of the real cluster: brokers, topics and groups, learned from the responses of the real
    brokers.

    Fault rules and the control API read this model. The proxy forwards all requests, so the model answers none of
    them.

    Args:
        settings: broker settings, of which only those for fault rules and for the control API are used.
        new_uuid: function that returns a new UUID.
        wall_at_zero: seconds since 1970 at time 0 of the proxy's clock.

    Attributes:
        coordinators: broker ids of the coordinators, by group id.
        real: addresses of the brokers in the real cluster, by node id.
    """

    def __init__(
        self,
        settings: Settings,
        new_uuid: Callable[[], UUID],
        wall_at_zero: float = 0.0,
    ) -> None:
        cluster = ObservedState([], new_uuid)
        cluster.topics[OFFSETS_TOPIC] = Topic(OFFSETS_TOPIC, new_uuid(), [Partition(OFFSETS_TOPIC, 0, [NO_LEADER])])
        super().__init__([], settings, new_uuid, wall_at_zero=wall_at_zero, cluster=cluster)
        self.groups.types = ObservedTypes()
        self._observed_sessions: dict[int, ObservedFetchSessions] = {}  # by broker id
        del cluster.topics[OFFSETS_TOPIC]  # it is known with the first Metadata response that names it
        self.coordinators: dict[str, int] = {}
        self.real: dict[int, Address] = {}
        self._learned = 0  # partitions of Metadata and Fetch responses

    def coordinator(self, group_id: str) -> int:
        return self.coordinators.get(group_id, NO_LEADER)

    def node_at(self, address: Address) -> int:
        """Return the id of the broker at an address of the real cluster; -1 if no response contained this address."""
        return next((node for node, each in self.real.items() if each == address), NO_LEADER)

    def fetch_sessions(self, node: int) -> ObservedFetchSessions:  # type: ignore[override]
        """Return the observed fetch sessions at one broker. ``node``: id of the broker."""
        return self._observed_sessions.setdefault(node, ObservedFetchSessions())

    def learn(self, metadata: MetadataResponse) -> Generator[None, None, None]:
        """Store the cluster id and the topics of a Metadata response, with the leaders of the partitions.

        Topics that no longer exist are removed.

        The generator yields after a limited amount of work, so that other tasks can run.
        """
        if metadata.cluster_id:
            assert isinstance(self.cluster, ObservedState)
            self.cluster.real_cluster_id = metadata.cluster_id
        for each in metadata.topics:
            if each.name and not each.error_code:
                yield from self._learn_topic(each.name, each)
            elif each.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and each.name in self.cluster.topics:
                self._forget_topic(each.name)

    def learn_offsets(self, fetched: FetchResponse) -> Generator[None, None, None]:
        """Store the log start offsets and the high watermarks in a Fetch response as the start and end of each
        partition.

        The generator yields after a limited amount of work, so that other tasks can run.
        """
        for each in fetched.responses:
            topic = self.cluster.by_id.get(each.topic_id) or self.cluster.topics.get(each.topic)
            for found in each.partitions:
                self._learned += 1
                if self._learned % SLICE == 0:
                    yield
                partition = None if topic is None else topic.partition(found.partition_index)
                if partition is not None and not found.error_code and found.high_watermark >= 0:
                    partition.log.start = max(found.log_start_offset, 0)
                    partition.log.end = found.high_watermark

    def _learn_topic(self, name: str, described: MetadataResponse.Topic) -> Generator[None, None, None]:
        known = self.cluster.topics.get(name)
        topic_id = described.topic_id
        if topic_id == ZERO_UUID:  # of a version without topic ids
            topic_id = ZERO_UUID if known is None else known.topic_id
        if known is None or known.topic_id != topic_id:
            self._forget_topic(name)
            known = self.cluster.topics[name] = Topic(name, topic_id, [])
            if topic_id != ZERO_UUID:
                self.cluster.by_id[topic_id] = known
        for each in sorted(described.partitions, key=lambda each: each.partition_index):
            while len(known.partitions) <= each.partition_index:
                partition = Partition(name, len(known.partitions), each.replica_nodes or [NO_LEADER])
                partition.log.end = UNKNOWN_END
                known.partitions.append(partition)
            known.partitions[each.partition_index].leader = each.leader_id
            known.partitions[each.partition_index].replicas = each.replica_nodes or [NO_LEADER]
            self._learned += 1
            if self._learned % SLICE == 0:
                yield

    def _forget_topic(self, name: str) -> None:
        topic = self.cluster.topics.pop(name, None)
        if topic is not None:
            self.cluster.by_id.pop(topic.topic_id, None)

    def set_brokers(self, own: Mapping[int, Address], real: Mapping[int, Address]) -> None:
        """Replace the brokers of the model.

        Args:
            own: the address of the proxy for each broker, by node id.
            real: the address of each broker in the real cluster, by node id.
        """
        self.real = dict(real)
        self.cluster.nodes = {node: Node(node, address.host, address.port) for node, address in sorted(own.items())}
