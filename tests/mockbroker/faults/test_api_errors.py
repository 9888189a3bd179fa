"""The errors that Kafka returns for each API, and the warning about other errors."""

from __future__ import annotations

import pytest

from kwire import APIS, ErrorCode
from mockbroker.broker.handlers import HANDLERS
from mockbroker.faults.api_errors import api_errors, unusual_error


def test_names_are_those_of_apis_and_errors() -> None:
    assert set(api_errors()) <= {APIS[key].name for key in HANDLERS}
    for errors in api_errors().values():
        assert errors <= {code.name for code in ErrorCode} - {"NONE"}


@pytest.mark.parametrize(
    ("api", "error"),
    [
        ("OffsetCommit", "REBALANCE_IN_PROGRESS"),  # recorded from a real broker
        ("OffsetCommit", "GROUP_AUTHORIZATION_FAILED"),  # without an authorizer, mockbroker never returns it
        ("Produce", "NOT_ENOUGH_REPLICAS_AFTER_APPEND"),  # documented
        ("ShareGroupHeartbeat", "COORDINATOR_NOT_AVAILABLE"),  # of every coordinator that starts or stops
        ("StreamsGroupHeartbeat", "COORDINATOR_NOT_AVAILABLE"),
        ("ConsumerGroupDescribe", "COORDINATOR_NOT_AVAILABLE"),
        ("DescribeShareGroupOffsets", "COORDINATOR_NOT_AVAILABLE"),
        ("OffsetDelete", "COORDINATOR_NOT_AVAILABLE"),
        ("DescribeTransactions", "COORDINATOR_LOAD_IN_PROGRESS"),
        ("CreateAcls", "CLUSTER_AUTHORIZATION_FAILED"),
        ("StopReplica", "INVALID_REQUEST"),  # an API that is not served
    ],
)
def test_error_of_kafka_has_no_warning(api: str, error: str) -> None:
    assert unusual_error(api, error) is None


def test_other_error_has_a_warning_with_those_of_kafka() -> None:
    warning = unusual_error("LeaveGroup", "OFFSET_OUT_OF_RANGE")
    assert warning is not None
    assert warning.startswith(
        "Kafka does not return OFFSET_OUT_OF_RANGE for LeaveGroup; it returns COORDINATOR_LOAD_IN"
    )
    assert warning.endswith(", UNKNOWN_MEMBER_ID, UNKNOWN_SERVER_ERROR")
