"""ListPartitionReassignments."""

from __future__ import annotations

import pytest
from tools.broker_harness import BrokerHarness

from kwire import ErrorCode as E
from kwire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest

Topic = ListPartitionReassignmentsRequest.Topic


@pytest.mark.parametrize("topics", [None, [], [Topic(name="t", partition_indexes=[0, 9])]])
def test_no_reassignments(topics):
    response = BrokerHarness().ask(ListPartitionReassignmentsRequest(topics=topics), 0)
    assert (response.error_code, response.topics) == (E.NONE, [])
