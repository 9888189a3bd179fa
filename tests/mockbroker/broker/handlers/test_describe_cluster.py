"""DescribeCluster."""

from __future__ import annotations

import pytest
from tools.broker_harness import BrokerHarness

from kwire import ErrorCode as E
from kwire.messages.describe_cluster import DescribeClusterRequest


@pytest.mark.parametrize("version", range(3))
def test_brokers_and_controller(version):
    harness = BrokerHarness(brokers=3, first_node=1)
    response = harness.ask(DescribeClusterRequest(), version)
    assert (response.error_code, response.controller_id, len(response.cluster_id)) == (E.NONE, 1, 22)
    assert [(one.broker_id, one.port) for one in response.brokers] == [(1, 9000), (2, 9001), (3, 9002)]
    assert response.cluster_authorized_operations == -2147483648


def test_authorized_operations_if_requested():
    response = BrokerHarness().ask(DescribeClusterRequest(include_cluster_authorized_operations=True), 1)
    assert response.cluster_authorized_operations > 0


def test_controller_endpoints_are_rejected():
    response = BrokerHarness().ask(DescribeClusterRequest(endpoint_type=2), 1)
    assert response.error_code == E.MISMATCHED_ENDPOINT_TYPE
