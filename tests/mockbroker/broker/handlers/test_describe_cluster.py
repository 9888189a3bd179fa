"""DescribeCluster."""

from __future__ import annotations

import pytest
from tools.broker_harness import BrokerHarness

from kwire import ErrorCode as E
from kwire.messages.describe_cluster import DescribeClusterRequest


@pytest.mark.parametrize("version", range(3))
def test_brokers_and_controller(version):
    harness = BrokerHarness(brokers=3, first_node=1)
    found = harness.ask(DescribeClusterRequest(), version)
    assert (found.error_code, found.controller_id, len(found.cluster_id)) == (E.NONE, 1, 22)
    assert [(one.broker_id, one.port) for one in found.brokers] == [(1, 9000), (2, 9001), (3, 9002)]
    assert found.cluster_authorized_operations == -2147483648


def test_authorized_operations_if_requested():
    found = BrokerHarness().ask(DescribeClusterRequest(include_cluster_authorized_operations=True), 1)
    assert found.cluster_authorized_operations > 0


def test_controller_endpoints_are_rejected():
    found = BrokerHarness().ask(DescribeClusterRequest(endpoint_type=2), 1)
    assert found.error_code == E.MISMATCHED_ENDPOINT_TYPE
