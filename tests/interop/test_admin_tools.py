"""Kafka's administrative tools on a cluster of two brokers print what they print on Kafka 4.2.0."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from interop.kafka_tools import tool
from interop.stage import CONFIG, MARKS

from mockbroker import ThreadCluster, run_cluster

pytestmark = MARKS

API_VERSIONS = Path(__file__).parent.parent.parent / "fixtures" / "tools" / "broker_api_versions-4.2.0.txt"
REASSIGN = "reassign.ReassignPartitionsCommand"
CURRENT = [
    {"topic": "orders", "partition": 0, "replicas": [0], "log_dirs": ["/memory"]},
    {"topic": "orders", "partition": 1, "replicas": [1], "log_dirs": ["/memory"]},
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[ThreadCluster]:
    with run_cluster(brokers=2, config=CONFIG) as found:
        yield found


def api_versions(lines: list[str]) -> list[str]:
    """Return the lines of kafka-broker-api-versions.sh about the first broker, without its address and its id."""
    begin = next(number for number, line in enumerate(lines) if line.endswith(" -> ("))
    return lines[begin + 1 : lines.index(")", begin)]


def test_kafka_broker_api_versions_tool(cluster: ThreadCluster) -> None:
    printed = tool("BrokerApiVersionsCommand", cluster.bootstrap_servers)
    assert api_versions(printed) == api_versions(API_VERSIONS.read_text().splitlines())


def without_blanks(lines: list[str]) -> list[str]:
    return [line for line in lines if line]


@pytest.mark.long
def test_kafka_reassign_partitions_and_leader_election_tools(cluster: ThreadCluster, tmp_path: Path) -> None:
    servers = cluster.bootstrap_servers
    moves = [
        {"topic": "orders", "partition": 0, "replicas": [1, 0]},
        {"topic": "orders", "partition": 1, "replicas": [0]},
    ]
    plan, topics = tmp_path / "plan.json", tmp_path / "topics.json"
    plan.write_text(json.dumps({"version": 1, "partitions": moves}))
    topics.write_text(json.dumps({"version": 1, "topics": [{"topic": "orders"}]}))
    moving = ("--reassignment-json-file", str(plan))
    tool("TopicCommand", servers, "--create", "--topic", "orders", "--replica-assignment", "0,1")
    generated = tool(REASSIGN, servers, "--topics-to-move-json-file", str(topics), "--broker-list", "0,1", "--generate")
    assert generated[0] == "Current partition replica assignment"
    assert json.loads(generated[1]) == {"version": 1, "partitions": CURRENT}
    assert "Proposed partition reassignment configuration" in generated
    executed = without_blanks(tool(REASSIGN, servers, *moving, "--execute", "--throttle", "1000000"))
    assert json.loads(executed[1]) == {"version": 1, "partitions": CURRENT}
    assert executed[2:] == [
        "Save this to use as the --reassignment-json-file option during rollback",
        "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is removed.",
        "The inter-broker throttle limit was set to 1000000 B/s",
        "Successfully started partition reassignments for orders-0,orders-1",
    ]
    cleared = ["Clearing broker-level throttles on brokers 0,1", "Clearing topic-level throttles on topic orders"]
    assert without_blanks(tool(REASSIGN, servers, *moving, "--verify")) == [
        "Status of partition reassignment:",
        "Reassignment of partition orders-0 is completed.",
        "Reassignment of partition orders-1 is completed.",
        *cleared,
    ]
    assert tool(REASSIGN, servers, "--list") == ["No partition reassignments found."]
    assert tool(REASSIGN, servers, *moving, "--cancel") == [
        "None of the specified partition reassignments are active.",
        f"None of the specified partition moves are active.{cleared[0]}",
        cleared[1],
    ]
    election = ("--topic", "orders", "--partition")
    elected = tool("LeaderElectionCommand", servers, "--election-type", "preferred", *election, "0")
    assert elected == ["Successfully completed leader election (PREFERRED) for partitions orders-0"]
    elected = tool("LeaderElectionCommand", servers, "--election-type", "unclean", *election, "1")
    assert elected == ["Valid replica already elected for partitions orders-1"]
    described = tool("TopicCommand", servers, "--describe", "--topic", "orders")
    assert [line.strip().split("\t")[1:5] for line in described[1:]] == [
        ["Partition: 0", "Leader: 1", "Replicas: 1,0", "Isr: 1,0"],
        ["Partition: 1", "Leader: 0", "Replicas: 0", "Isr: 0"],
    ]


@pytest.mark.long
def test_kafka_metadata_quorum_and_cluster_tools(cluster: ThreadCluster) -> None:
    servers = cluster.bootstrap_servers
    status = dict(line.split(":", 1) for line in tool("MetadataQuorumCommand", servers, "describe", "--status"))
    names = ["ClusterId", "LeaderId", "LeaderEpoch", "HighWatermark", "MaxFollowerLag", "MaxFollowerLagTimeMs"]
    assert list(status) == [*names, "CurrentVoters", "CurrentObservers"]
    assert (status["LeaderId"].strip(), status["MaxFollowerLag"].strip()) == ("0", "0")
    assert [voter["id"] for voter in json.loads(status["CurrentVoters"])] == [0, 1]
    replication = tool("MetadataQuorumCommand", servers, "describe", "--replication")
    assert [line.split()[-1] for line in replication] == ["Status", "Leader", "Follower"]
    endpoints = tool("ClusterTool", servers, "list-endpoints", "--include-fenced-brokers", option_last=True)
    assert [line.split()[4] for line in endpoints] == ["STATE", "unfenced", "unfenced"]
