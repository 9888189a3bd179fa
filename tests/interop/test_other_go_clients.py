"""sarama and kafka-go: records, groups, configurations, quotas, reassignments and ACLs on a cluster of two brokers."""

from __future__ import annotations

import json
import subprocess

import pytest
from interop import programs
from interop.stage import LIMIT, MARKS

from mockbroker import run_cluster

pytestmark = MARKS
CONFIG = {
    "group.initial.rebalance.delay.ms": 0,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
OUTCOMES = {
    "creates a topic": "",
    "records": 6,
    "group reads": 6,
    "committed": 6,
    "alters a broker": "",
    "describes a broker": ["2000"],
    "alters a quota": "",
    "describes a quota": [1e6],
    "reassigns": "",
    "replicas": [[1, 0], [0, 1]],
    "creates an ACL": "",
    "lists ACLs": ["User:bob"],
    "deletes the topic": "",
}
OWN = {  # outcomes that only one client has, or that it names differently
    "sarama": {"describes a broker": ["2000", "DynamicBroker"], "log directories": 1},
    "kafka-go": {},
}
TOO_LARGE = {"sarama": "Message was too large", "kafka-go": "[10] Message Size Too Large"}


@pytest.mark.scenario("a topic with its records, a group, and an administrator")
@pytest.mark.parametrize("client", OWN)
def test_a_client_uses_and_administers_a_cluster(client: str) -> None:
    program = programs.other_go_clients()
    with run_cluster(brokers=2, config=CONFIG) as cluster:
        command = [*program, client, cluster.bootstrap_servers]
        done = subprocess.run(command, env=programs.ENVIRONMENT, capture_output=True, text=True, timeout=2 * LIMIT)
        assert done.returncode == 0, done.stderr
        outcomes = json.loads(done.stdout)
        assert TOO_LARGE[client] in outcomes.pop("record above max.message.bytes")
        assert outcomes == OUTCOMES | OWN[client]
