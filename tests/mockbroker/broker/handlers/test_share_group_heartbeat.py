"""ShareGroupHeartbeat: checks of the request. The group itself: tests/mockbroker/groups/share."""

from __future__ import annotations

from typing import Any

import pytest
from tools.share_group_harness import ShareGroupHarness

from kwire import ErrorCode as E
from mockbroker.base.release import RELEASES

JOIN = {"member_epoch": 0, "subscribed_topic_names": ["t"]}
INVALID = [
    pytest.param({"group": ""}, "GroupId can't be empty.", id="group id"),
    pytest.param({"group": " "}, "GroupId can't be empty.", id="blank group id"),
    pytest.param({"rack_id": ""}, "RackId can't be empty.", id="rack id"),
    pytest.param({"subscribed_topic_names": []}, "SubscribedTopicNames must be set in first request.", id="no topics"),
    pytest.param({"subscribed_topic_names": None}, "SubscribedTopicNames must be set in first request.", id="null"),
    pytest.param({"member_epoch": -2}, "MemberEpoch is invalid.", id="epoch"),
    pytest.param(
        {"subscribed_topic_names": [f"t{n}" for n in range(10_001)]},
        "The subscription has 10001 topic names, the maximum is 10000: use several groups.",
        id="many topics",
    ),
]


@pytest.mark.parametrize(("fields", "text"), INVALID)
def test_invalid_fields_are_rejected(fields: dict[str, Any], text: str) -> None:
    answer = ShareGroupHarness().beat("a", **JOIN | fields)
    assert (answer.error_code, answer.error_message) == (E.INVALID_REQUEST, text)


@pytest.mark.parametrize(("member_id", "error"), [("", 42), (" ", 42), ("m" * 36, 0), ("m" * 37, 42)])
def test_a_member_id_has_at_most_36_characters(member_id: str, error: int) -> None:
    assert ShareGroupHarness().beat(member_id, **JOIN).error_code == error


def test_another_broker_is_not_the_coordinator() -> None:
    harness = ShareGroupHarness(brokers=2)
    other = 1 - harness.broker.coordinator("g")
    harness.broker.coordinator = lambda _: other  # type: ignore[method-assign]
    assert harness.beat("a", **JOIN).error_code == E.NOT_COORDINATOR


@pytest.mark.parametrize(
    ("release", "config", "error"),
    [
        ("4.2", {}, E.NONE),
        ("4.1", {}, E.UNSUPPORTED_VERSION),
        ("4.1", {"group.share.enable": "true"}, E.NONE),
        ("4.1", {"group.coordinator.rebalance.protocols": "classic,consumer,share"}, E.NONE),
    ],
)
def test_share_groups_need_the_feature_or_a_setting(release: str, config: dict[str, str], error: E) -> None:
    harness = ShareGroupHarness(release=RELEASES[release], config=config)
    assert harness.beat("a", **JOIN).error_code == error
