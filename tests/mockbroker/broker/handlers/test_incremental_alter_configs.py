"""IncrementalAlterConfigs. Valid and invalid changes: tests/mockbroker/topics/test_alteration.py."""

from __future__ import annotations

from typing import Any

import pytest
from tools.broker_harness import BrokerHarness

from kwire import ErrorCode as E
from kwire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest

Resource = IncrementalAlterConfigsRequest.Resource


def resource(*changes: Any, name: str = "t", kind: int = 2) -> Any:
    configs = [Resource.Config(name=key, config_operation=operation, value=value) for key, operation, value in changes]
    return Resource(resource_type=kind, resource_name=name, configs=configs)


@pytest.mark.parametrize("version", [0, 1])
def test_unnamed_configs_are_kept(version):
    harness = BrokerHarness(topics={"t": 1, "u": 1})
    kept = harness.broker.cluster.topics

    def alter(*resources: Any, validate_only: bool = False) -> list[Any]:
        request = IncrementalAlterConfigsRequest(resources=list(resources), validate_only=validate_only)
        return [each.error_code for each in harness.ask(request, version).responses]

    assert alter(resource(("retention.ms", 0, "1")), resource(("retention.ms", 0, "x"), name="u")) == [
        E.NONE,
        E.INVALID_CONFIG,
    ]
    assert (kept["t"].configs, kept["u"].configs) == ({"retention.ms": "1"}, {})
    assert alter(resource(("cleanup.policy", 2, "compact"))) == [E.NONE]
    assert kept["t"].configs == {"retention.ms": "1", "cleanup.policy": "delete,compact"}
    assert alter(resource(("retention.ms", 1, None)), validate_only=True) == [E.NONE]
    assert alter(resource(("retention.ms", 1, None))) == [E.NONE]
    assert kept["t"].configs == {"cleanup.policy": "delete,compact"}
    assert alter(resource(name="no-such-topic"), resource(name="9", kind=4)) == [
        E.UNKNOWN_TOPIC_OR_PARTITION,
        E.INVALID_REQUEST,
    ]
