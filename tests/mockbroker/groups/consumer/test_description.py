"""The descriptions of a consumer group: for ConsumerGroupDescribe, the control API and ``mockbroker import``."""

from __future__ import annotations

import pytest
from tools.consumer_group_harness import MixedGroupHarness

from mockbroker.base.settings import Settings
from mockbroker.groups.consumer.description import member_description, to_json


@pytest.fixture
def harness() -> MixedGroupHarness:
    """Return a group at epoch 2 with the members a, which has to revoke partitions, and b."""
    harness = MixedGroupHarness({"group.consumer.migration.policy": "bidirectional"})
    harness.join("a", rack_id="r", instance_id="i", server_assignor="range", subscribed_topic_regex="")
    harness.join("b", ["u", "t"])
    harness.beat("a", member_epoch=1, instance_id="i", topic_partitions=harness.lines(harness.clients["a"].assigned))
    return harness


def names(harness: MixedGroupHarness) -> dict[object, str]:
    return {topic_id: topic.name for topic_id, topic in harness.broker.cluster.by_id.items()}


def test_group_is_printed_with_all_members(harness: MixedGroupHarness) -> None:
    printed = to_json(harness.group, names(harness), Settings())
    assert {key: value for key, value in printed.items() if key != "members"} == {
        "type": "consumer",
        "state": "Reconciling",
        "epoch": 2,
        "assignment_epoch": 2,
        "assignor": "range",
    }
    first, second = printed["members"]
    assert first == {
        "member_id": "a",
        "instance_id": "i",
        "client_id": "a",
        "client_host": "/127.0.0.1",
        "rack_id": "r",
        "session_timeout_ms": None,
        "rebalance_timeout_ms": 60_000,
        "subscribed_topics": ["t"],
        "subscribed_regex": None,
        "server_assignor": "range",
        "speaks": "consumer",
        "member_epoch": 1,
        "previous_member_epoch": 1,
        "state": "UNREVOKED_PARTITIONS",
        "assignment": {"t": [0, 1]},
        "pending_revocation": {"t": [2]},
        "target": {"t": [0, 1]},
    }
    assert (second["subscribed_topics"], second["target"]) == (["t", "u"], {"t": [2], "u": [0, 1]})
    assert (second["instance_id"], second["rack_id"], second["server_assignor"]) == (None, None, None)


def test_classic_member_has_its_own_session_timeout() -> None:
    harness = MixedGroupHarness({"group.consumer.migration.policy": "bidirectional"})
    harness.join("a")
    member_id = harness.classic(session=12_000)
    group = harness.group
    [printed] = [
        each for each in to_json(group, names(harness), Settings())["members"] if each["member_id"] == member_id
    ]
    assert (printed["session_timeout_ms"], printed["speaks"]) == (12_000, "classic")
    assert member_description(group.members[member_id], names(harness), 45_000).session_timeout_ms == 12_000
    assert member_description(group.members["a"], names(harness), 45_000).session_timeout_ms == 45_000
    types = {each.member_id: each.member_type for each in harness.describe().members}
    assert types == {"a": 1, member_id: 0}


def test_member_of_the_control_api(harness: MixedGroupHarness) -> None:
    member = member_description(harness.group.members["a"], names(harness), 45_000)
    assert (member.member_id, member.client_id, member.instance_id, member.epoch) == ("a", "a", "i", 1)
    assert (member.subscription, member.assignment, member.regex) == (["t"], {"t": [0, 1]}, "")
    assert member.state == "UNREVOKED_PARTITIONS"


def test_group_is_described_with_its_epochs(harness: MixedGroupHarness) -> None:
    described = harness.describe()
    assert (described.group_state, described.group_epoch, described.assignment_epoch) == ("Reconciling", 2, 2)
    [member] = [each for each in described.members if each.member_id == "a"]
    assert (member.instance_id, member.rack_id, member.member_epoch) == ("i", "r", 1)
    assigned, target = (
        {each.topic_name: each.partitions for each in part.topic_partitions}
        for part in (member.assignment, member.target_assignment)
    )
    assert (assigned, target) == ({"t": [0, 1]}, {"t": [0, 1]})


def test_regex_of_a_member_is_shown() -> None:
    harness = MixedGroupHarness()
    harness.join("a", [], subscribed_topic_names=None, subscribed_topic_regex="t.*")
    [printed] = to_json(harness.group, names(harness), Settings())["members"]
    assert (printed["subscribed_regex"], printed["subscribed_topics"]) == ("t.*", [])
    assert member_description(harness.group.members["a"], names(harness), 1).regex == "t.*"
