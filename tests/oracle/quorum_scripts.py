"""Conversations about the controller quorum, which record.py records; the node is a broker and a controller."""

from __future__ import annotations

from uuid import UUID

from authorizer_scripts import ALTER, CLUSTER, DESCRIBE, SETTINGS, THE_CLUSTER, USERS, grant, revoke
from prober import Prober
from script import NEW, script

from kwire.messages.add_raft_voter import AddRaftVoterRequest
from kwire.messages.describe_cluster import DescribeClusterRequest
from kwire.messages.describe_quorum import DescribeQuorumRequest
from kwire.messages.remove_raft_voter import RemoveRaftVoterRequest
from kwire.messages.unregister_broker import UnregisterBrokerRequest

METADATA_LOG = "__cluster_metadata"
Topic = DescribeQuorumRequest.Topic


def quorum(*partitions: tuple[str, int]) -> DescribeQuorumRequest:
    kind = Topic.Partition
    return DescribeQuorumRequest(
        topics=[Topic(topic_name=name, partitions=[kind(partition_index=index)]) for name, index in partitions]
    )


def added(cluster_id: str | None = None) -> AddRaftVoterRequest:
    listener = AddRaftVoterRequest.Listener(name="CONTROLLER", host="127.0.0.1", port=9)
    return AddRaftVoterRequest(
        cluster_id=cluster_id, timeout_ms=1000, voter_id=7, voter_directory_id=UUID(int=7), listeners=[listener]
    )


@script(releases=(NEW,))
async def quorum_described(p: Prober) -> None:
    """DescribeQuorum of the metadata log and of other partitions."""
    for version in (0, 1, 2):
        await p.ask("A", quorum((METADATA_LOG, 0)), version)
    await p.ask("A", quorum((METADATA_LOG, 1)), 2)
    await p.ask("A", quorum(("probe", 0)), 2)
    await p.ask("A", quorum((METADATA_LOG, 0), ("probe", 0)), 1)
    await p.ask("A", quorum(), 2)


@script(releases=(NEW,))
async def quorum_is_static(p: Prober) -> None:
    """AddRaftVoter and RemoveRaftVoter to a static quorum (controller.quorum.voters)."""
    for version in (0, 1):
        await p.ask("A", added(), version)
    await p.ask("A", added("not the id of the cluster"), 0)
    for cluster_id in (None, "not the id of the cluster"):
        for voter in (1, 7):
            request = RemoveRaftVoterRequest(cluster_id=cluster_id, voter_id=voter, voter_directory_id=UUID(int=7))
            await p.ask("A", request, 0)
    for voter, directory in ((-1, UUID(int=7)), (7, UUID(int=0))):
        request = RemoveRaftVoterRequest(cluster_id=None, voter_id=voter, voter_directory_id=directory)
        await p.ask("A", request, 0)
        await p.ask("A", AddRaftVoterRequest(cluster_id=None, voter_id=voter, voter_directory_id=directory), 1)


@script(releases=(NEW,), brokers=3, down=(3,))
async def brokers_unregistered(p: Prober) -> None:
    """UnregisterBroker, and the fenced brokers that DescribeCluster returns."""
    for broker in (7, -1):
        await p.ask("A", UnregisterBrokerRequest(broker_id=broker), 0)
    for version, fenced in ((0, False), (1, False), (2, False), (2, True)):
        await p.ask("A", DescribeClusterRequest(include_fenced_brokers=fenced), version)
    await p.ask("A", UnregisterBrokerRequest(broker_id=3), 0)
    await p.wait(500, "until the brokers know it")
    await p.ask("A", UnregisterBrokerRequest(broker_id=3), 0)
    await p.ask("A", DescribeClusterRequest(include_fenced_brokers=True), 2)
    for kind in (2, 3):
        await p.ask("A", DescribeClusterRequest(endpoint_type=kind), 1)


@script(SETTINGS, (NEW,), USERS, ("super",))
async def acl_quorum(p: Prober) -> None:
    """DescribeQuorum needs DESCRIBE on the cluster; the other requests about controllers and brokers need ALTER."""
    await grant(p, {"one": [(DESCRIBE, CLUSTER, THE_CLUSTER)], "two": [(ALTER, CLUSTER, THE_CLUSTER)]})
    for user in ("none", "one", "two"):
        await p.ask(user, quorum((METADATA_LOG, 0)), 2)
        await p.ask(user, UnregisterBrokerRequest(broker_id=7), 0)
        await p.ask(user, added(), 1)
        await p.ask(user, RemoveRaftVoterRequest(voter_id=7, voter_directory_id=UUID(int=7)), 0)
    await revoke(p)
