"""Frameworks around the Java client: an application of each reads a topic in a group and writes to another topic."""

from __future__ import annotations

import subprocess

import pytest
from interop import programs
from interop.matrix import FRAMEWORKS
from interop.stage import MARKS

from mockbroker import run_cluster

pytestmark = MARKS
ORDERS = [f"order {number}".encode() for number in range(20)]
LIMIT = 120.0  # seconds
IN_TRANSACTIONS = {"spring-kafka", "pekko", "flink"}


@pytest.mark.long
@pytest.mark.scenario("reads orders and writes bills")
@pytest.mark.parametrize(("framework", "version"), FRAMEWORKS)
def test_application_reads_and_writes(framework: str, version: str) -> None:
    assert f"<version>{version}</version>" in (programs.HERE / "java-frameworks" / "pom.xml").read_text()
    command = programs.java_framework(framework)
    config = {"group.initial.rebalance.delay.ms": 0}
    with run_cluster(topics={"orders": 1, "bills": 1}, config=config) as cluster:
        cluster.produce("orders", ORDERS)
        arguments = [cluster.bootstrap_servers, str(len(ORDERS))]
        done = subprocess.run(
            [*command, *arguments], env=programs.ENVIRONMENT, capture_output=True, text=True, timeout=LIMIT
        )
        assert done.returncode == 0, (done.stdout + done.stderr)[-3_000:]
        bills = [record.value for record in cluster.records("bills", committed=True)]
        assert bills == [order.upper() for order in ORDERS]
        assert cluster.committed("billing") == {("orders", 0): len(ORDERS)}
        assert bool(cluster.transactions()) is (framework in IN_TRANSACTIONS)
