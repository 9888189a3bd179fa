"""AlterConfigs. Valid and invalid changes: tests/mockbroker/topics/test_alteration.py."""

from __future__ import annotations

from typing import Any

import pytest
from tools.broker_harness import BrokerHarness

from kwire import ErrorCode as E
from kwire.messages.alter_configs import AlterConfigsRequest

Resource = AlterConfigsRequest.Resource


def alter(
    harness: BrokerHarness,
    version: int = 2,
    *,
    name: str = "t",
    kind: int = 2,
    validate_only: bool = False,
    **configs: Any,
) -> Any:
    resource_configs = [Resource.Config(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    resource = Resource(resource_type=kind, resource_name=name, configs=resource_configs)
    (result,) = harness.ask(AlterConfigsRequest(resources=[resource], validate_only=validate_only), version).responses
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result.error_code


@pytest.mark.parametrize("version", [0, 1, 2])
def test_unnamed_configs_are_reset(version):
    harness = BrokerHarness()
    topic = harness.broker.cluster.topics["t"]
    assert alter(harness, version, retention_ms="1", cleanup_policy="compact") == E.NONE
    assert topic.configs == {"retention.ms": "1", "cleanup.policy": "compact"}
    assert alter(harness, version, retention_ms="2", validate_only=True) == E.NONE
    assert alter(harness, version, retention_ms="x") == E.INVALID_CONFIG
    assert topic.configs == {"retention.ms": "1", "cleanup.policy": "compact"}
    assert alter(harness, version, max_message_bytes="5") == E.NONE
    assert topic.configs == {"max.message.bytes": "5"}


def test_unsupported_resource_types_are_rejected():
    assert alter(BrokerHarness(), name="no-such-topic") == E.UNKNOWN_TOPIC_OR_PARTITION
    assert alter(BrokerHarness(), name="0", kind=8) == E.INVALID_REQUEST
