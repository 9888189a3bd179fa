"""Python's loggers get the levels that clients set, and their own levels back."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from interop.raw import Connection

from kwire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from mockbroker import run_cluster
from mockbroker.net.log_levels import set_levels

Resource = IncrementalAlterConfigsRequest.Resource
OURS = logging.getLogger("mockbroker")


@pytest.fixture(autouse=True)
def _own_level() -> Iterator[None]:
    before = OURS.level
    OURS.setLevel(logging.INFO)
    yield
    OURS.setLevel(before)


def test_levels_are_set_and_restored() -> None:
    set_levels({"root": "ERROR", "mockbroker": "TRACE", "mockbroker.http": "FATAL"})
    assert (OURS.level, logging.getLogger("mockbroker.http").level) == (5, logging.CRITICAL)
    set_levels({"mockbroker": "WARN"})
    assert (OURS.level, logging.getLogger("mockbroker.http").level) == (logging.WARNING, logging.NOTSET)
    set_levels({})
    assert OURS.level == logging.INFO


def test_client_sets_the_level_until_the_cluster_ends() -> None:
    with run_cluster() as cluster:
        config = Resource.Config(name="mockbroker", config_operation=0, value="DEBUG")
        resource = Resource(resource_type=8, resource_name="0", configs=[config])
        with Connection(cluster) as broker:
            response = broker.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        assert response.responses[0].error_code == 0
        assert OURS.level == logging.DEBUG
    assert OURS.level == logging.INFO
