"""A client in the simulation that reads the state of the cluster, as the tools of administrators and monitoring do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kwire import APIS
from kwire.messages.describe_acls import DescribeAclsRequest
from kwire.messages.describe_client_quotas import DescribeClientQuotasRequest
from kwire.messages.describe_cluster import DescribeClusterRequest
from kwire.messages.describe_log_dirs import DescribeLogDirsRequest
from kwire.messages.describe_producers import DescribeProducersRequest
from kwire.messages.describe_quorum import DescribeQuorumRequest
from kwire.messages.describe_share_group_offsets import DescribeShareGroupOffsetsRequest
from kwire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from kwire.messages.describe_transactions import DescribeTransactionsRequest
from kwire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from kwire.messages.list_config_resources import ListConfigResourcesRequest
from kwire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from kwire.messages.list_transactions import ListTransactionsRequest
from kwire.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from kwire.messages.share_group_describe import ShareGroupDescribeRequest
from kwire.messages.streams_group_describe import StreamsGroupDescribeRequest
from kwire.schema import schema_of
from mockbroker.lab.simulation.clients.direct import DirectClient

ANY = 1  # code that matches every type, operation and permission of an access rule
METADATA_TOPIC = "__cluster_metadata"
PARTITIONS = [0, 1, 2]
GROUPS = ["g0", "g1", "swarm-g0", "shares-s0", "shares-s1", "streams-g0"]  # as in scripts of the scheme mix
TRANSACTIONAL_IDS = ["x0", "x1", "e0", "e1"]


def _producers(topics: Sequence[str]) -> DescribeProducersRequest:
    kind = DescribeProducersRequest.Topic
    return DescribeProducersRequest(topics=[kind(name=name, partition_indexes=PARTITIONS) for name in topics])


def _topics(topics: Sequence[str]) -> DescribeTopicPartitionsRequest:
    kind = DescribeTopicPartitionsRequest.Topic
    return DescribeTopicPartitionsRequest(topics=[kind(name=name) for name in topics])


def _epochs(topics: Sequence[str]) -> OffsetForLeaderEpochRequest:
    kind = OffsetForLeaderEpochRequest.Topic
    partitions = [kind.Partition(partition=number, leader_epoch=number) for number in PARTITIONS]
    return OffsetForLeaderEpochRequest(
        replica_id=-1, topics=[kind(topic=name, partitions=partitions) for name in topics]
    )


def _quorum(_: Sequence[str]) -> DescribeQuorumRequest:
    kind = DescribeQuorumRequest.Topic
    return DescribeQuorumRequest(topics=[kind(topic_name=METADATA_TOPIC, partitions=[kind.Partition()])])


def _acls(_: Sequence[str]) -> DescribeAclsRequest:
    return DescribeAclsRequest(
        resource_type_filter=ANY, pattern_type_filter=ANY, operation=ANY, permission_type=ANY,
        resource_name_filter=None, principal_filter=None, host_filter=None,
    )  # fmt: skip


def _share_offsets(_: Sequence[str]) -> DescribeShareGroupOffsetsRequest:
    kind = DescribeShareGroupOffsetsRequest.Group
    return DescribeShareGroupOffsetsRequest(groups=[kind(group_id=name, topics=None) for name in GROUPS])


def _constant(request: Any) -> Callable[[Sequence[str]], Any]:
    return lambda _: request


# Functions that make a request; their argument is the names of the topics.
REQUESTS: tuple[Callable[[Sequence[str]], Any], ...] = (
    _producers,
    _topics,
    _epochs,
    _quorum,
    _acls,
    _share_offsets,
    _constant(DescribeClusterRequest()),
    _constant(DescribeClientQuotasRequest()),
    _constant(DescribeLogDirsRequest(topics=None)),
    _constant(DescribeTransactionsRequest(transactional_ids=TRANSACTIONAL_IDS)),
    _constant(DescribeUserScramCredentialsRequest(users=None)),
    _constant(ListConfigResourcesRequest()),
    _constant(ListPartitionReassignmentsRequest(topics=None)),
    _constant(ListTransactionsRequest()),
    _constant(ShareGroupDescribeRequest(group_ids=GROUPS)),
    _constant(StreamsGroupDescribeRequest(group_ids=GROUPS)),
)


def ignore(_: object) -> None:
    """Do nothing: the checkers of the broker's state see the responses, and the client does not use them."""


class Describer(DirectClient):
    """A client that regularly sends a request that only reads, in its newest version, to any broker."""

    def begin(self) -> None:
        super().begin()
        self.later(self.script.commit, self._read)

    def _read(self) -> None:
        self.later(self.script.commit * (0.5 + self.dice.random()), self._read)
        wire = self.leaders.any_broker()
        if wire is None:
            return
        request = self.dice.pick(REQUESTS)(self.topics)
        api = schema_of(type(request)).api
        assert api is not None
        newest = APIS[api.key].versions.last
        assert newest is not None
        self.send(wire, api.key, newest, request, ignore)
