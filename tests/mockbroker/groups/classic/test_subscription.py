"""The subscribed topics of a classic group, as far as subscriptions can be decoded."""

from __future__ import annotations

from typing import Any

import pytest
from tools.group_harness import GroupHarness

from kwire.blobs import encode_stored
from kwire.blobs.consumer_protocol import ConsumerProtocolSubscription
from mockbroker.groups.classic.subscription import subscribed_topics


def subscription(*topics: Any, version: int = 1) -> bytes:
    return encode_stored(ConsumerProtocolSubscription(topics=list(topics)), version)


def harness(*metadata: Any, protocol_type: str = "consumer") -> GroupHarness:
    result = GroupHarness(delay=1.0)
    for number, data in enumerate(metadata):
        result.join(f"m{number}", (("range", data),), protocol_type=protocol_type)
    result.wait(3.0)
    return result


def test_topics_of_all_members_are_subscribed():
    assert subscribed_topics(harness(subscription("a", "b"), subscription("b", "c", version=3)).group) == {
        "a",
        "b",
        "c",
    }


@pytest.mark.parametrize("garbage", [b"", b"\0", b"\0\1\xff\xff\xff\xff", bytes(300), b"x" * 2_000_000])
def test_invalid_subscription_bytes_are_ignored(garbage):
    result = harness(subscription("a"), garbage)
    result.sync_all()
    assert subscribed_topics(result.group) in (None, {"a"})
    assert result.heartbeat("m1").name == "NONE"


def test_other_protocol_types_are_not_decoded():
    assert subscribed_topics(harness(subscription("a"), protocol_type="connect").group) is None


def test_subscription_of_an_empty_group_is_unknown():
    assert subscribed_topics(GroupHarness().group) is None
