"""The base classes of errors of operations: they distinguish what does not exist from what is not possible now."""

from __future__ import annotations

import pytest

from mockbroker import (
    ConflictError,
    FailoverError,
    NotFoundError,
    UnknownBrokerError,
    UnknownGroupError,
    UnknownMemberError,
    UnknownTopicError,
    run_cluster,
)


@pytest.mark.parametrize("error", [UnknownBrokerError, UnknownGroupError, UnknownMemberError, UnknownTopicError])
def test_what_does_not_exist_is_a_not_found_error(error: type) -> None:
    assert issubclass(error, NotFoundError)
    assert issubclass(error, LookupError)


@pytest.mark.parametrize("error", [FailoverError])
def test_what_is_not_possible_now_is_a_conflict(error: type) -> None:
    assert issubclass(error, ConflictError)
    assert issubclass(error, ValueError)
    assert not issubclass(error, NotFoundError)


def test_errors_of_a_cluster_have_these_bases() -> None:
    with run_cluster() as cluster:
        with pytest.raises(NotFoundError, match="broker 7 does not exist"):
            cluster.stop_broker(7)
        with pytest.raises(NotFoundError, match="topic 'orders' does not exist"):
            cluster.records("orders")
        with pytest.raises(ConflictError, match="broker 0 is already running"):
            cluster.start_broker(0)
