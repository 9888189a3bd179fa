"""Every rule of the comparison, with passing and failing cases."""

from __future__ import annotations

import pytest

from mockbroker.lab.conform.compare import Bindings, Comparison

A, B = "probe-11111111-1111-4111-8111-111111111111", "probe-22222222-2222-4222-8222-222222222222"
X, Y = "probe-aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa", "probe-bbbbbbbb-bbbb-4bbb-8bbb-bbbbbbbbbbbb"
TOPIC, OTHER_TOPIC = "AAAAAAAAQACAAAAAAAAAAQ", "AAAAAAAAQACAAAAAAAAAAg"
SHORT, OTHER_SHORT = "aaaaaaaaaaaaaaaaaaaaaA", "bbbbbbbbbbbbbbbbbbbbbA"  # member ids of the consumer protocol
NAMES = {A: "$A", B: "$B", SHORT: "$C", TOPIC: "$topic:t"}
ASKED, NOT_ASKED = 3400, -2147483648


def difference(recorded: object, ours: object, api: str = "JoinGroup", **options: object) -> str | None:
    return Comparison(Bindings(NAMES), api, **options).difference(recorded, ours)  # type: ignore[arg-type]


SAME = [  # recorded, ours, api
    ({"error_code": 0}, {"error_code": 0}, "JoinGroup"),
    ({"host": "a", "port": 1}, {"host": "b", "port": 2}, "Metadata"),
    ({"cluster_id": "x"}, {}, "Metadata"),
    ({"finalized_features": [1]}, {"finalized_features": []}, "ApiVersions"),
    ({"error_message": "no"}, {"error_message": "not so"}, "FindCoordinator"),
    ({"error_message": ""}, {"error_message": ""}, "FindCoordinator"),
    ({"client_host": "/127.0.0.1"}, {"client_host": "/10.0.0.7"}, "DescribeGroups"),
    ({"client_host": "/127.0.0.1"}, {"client_host": "/0:0:0:0:0:0:0:1"}, "DescribeGroups"),
    ({"authorized_operations": ASKED}, {"authorized_operations": 1}, "DescribeGroups"),
    ({"authorized_operations": NOT_ASKED}, {"authorized_operations": NOT_ASKED}, "DescribeGroups"),
    ({"member_id": A, "leader": A}, {"member_id": X, "leader": X}, "JoinGroup"),
    ({"member_id": "made-up-1"}, {"member_id": "made-up-1"}, "JoinGroup"),
    ({"topic_id": TOPIC}, {"topic_id": OTHER_TOPIC}, "Fetch"),
    ({"member_id": SHORT}, {"member_id": OTHER_SHORT}, "ConsumerGroupHeartbeat"),
    ({"partitions": [0, 10, 2]}, {"partitions": [10, 2, 0]}, "ConsumerGroupHeartbeat"),
    (
        {"topic_partitions": [{"topic_id": "x"}, {"topic_id": "y"}]},
        {"topic_partitions": [{"topic_id": "y"}, {"topic_id": "x"}]},
        "ConsumerGroupDescribe",
    ),
    ({"subscribed_topic_names": ["a", "b"]}, {"subscribed_topic_names": ["b", "a"]}, "ConsumerGroupDescribe"),
    (
        {"groups": [{"group_id": "a"}, {"group_id": "b"}]},
        {"groups": [{"group_id": "b"}, {"group_id": "a"}]},
        "ConsumerGroupDescribe",
    ),
    ({"producer_id": 7}, {"producer_id": 0}, "InitProducerId"),
    ({"producer_id": -1}, {"producer_id": -1}, "InitProducerId"),
    ({"session_id": 0}, {"session_id": 0}, "Fetch"),
    ({"session_id": 5}, {"session_id": 9}, "Fetch"),
    ({"members": [{"member_id": A}, {"member_id": B}]}, {"members": [{"member_id": Y}, {"member_id": X}]}, "JoinGroup"),
    (
        {"groups": [{"group_id": "a"}, {"group_id": "b"}]},
        {"groups": [{"group_id": "b"}, {"group_id": "a"}]},
        "ListGroups",
    ),
    ({"topics": [{"name": "a"}, {"name": "b"}]}, {"topics": [{"name": "b"}, {"name": "a"}]}, "OffsetCommit"),
    ({"responses": [{"name": "a"}, {"name": "b"}]}, {"responses": [{"name": "b"}, {"name": "a"}]}, "DeleteTopics"),
    ({"mechanisms": ["A", "B"]}, {"mechanisms": ["B", "A"]}, "SaslHandshake"),
    ({"api_keys": [{"api_key": 1}, {"api_key": 99}]}, {"api_keys": [{"api_key": 1}]}, "ApiVersions"),
    ({"configs": [{"name": "x"}, {"name": "y"}]}, {"configs": [{"name": "y"}]}, "CreateTopics"),
]


@pytest.mark.parametrize(("recorded", "ours", "api"), SAME)
def test_equal_responses_have_no_difference(recorded: object, ours: object, api: str) -> None:
    assert difference(recorded, ours, api) is None


DIFFERENT = [  # recorded, ours, api, where
    ({"error_code": 0}, {"error_code": 1}, "JoinGroup", "error_code: recorded 0, got 1"),
    ({"flag": True}, {"flag": False}, "JoinGroup", "flag: recorded true, got false"),
    ({"flag": True}, {"flag": 1}, "JoinGroup", "flag: recorded true, got 1"),
    ({"name": ""}, {"name": None}, "JoinGroup", 'name: recorded "", got null'),
    ({"name": None}, {"name": ""}, "JoinGroup", 'name: recorded null, got ""'),
    ({"name": None}, {}, "JoinGroup", "name: recorded null, got (nothing)"),
    ({}, {"name": None}, "JoinGroup", "name: recorded (nothing), got null"),
    ({"metadata": "AAE="}, {"metadata": "AAI="}, "JoinGroup", "metadata"),
    ({"name": []}, {"name": None}, "JoinGroup", "name: recorded [], got null"),
    ({"error_message": None}, {"error_message": ""}, "FindCoordinator", "error_message"),
    ({"error_message": "x"}, {"error_message": ""}, "FindCoordinator", "error_message"),
    ({"error_message": "x"}, {"error_message": None}, "FindCoordinator", "error_message"),
    ({"error_message": ""}, {"error_message": "x"}, "FindCoordinator", "error_message"),
    ({"client_host": "/127.0.0.1"}, {"client_host": "127.0.0.1"}, "DescribeGroups", "client_host"),
    ({"client_host": ""}, {"client_host": "/127.0.0.1"}, "DescribeGroups", "client_host"),
    ({"authorized_operations": ASKED}, {"authorized_operations": NOT_ASKED}, "DescribeGroups", "authorized"),
    ({"authorized_operations": NOT_ASKED}, {"authorized_operations": 1}, "DescribeGroups", "authorized"),
    ({"member_id": A, "leader": A}, {"member_id": X, "leader": Y}, "JoinGroup", "leader"),
    ({"member_id": A, "leader": B}, {"member_id": X, "leader": X}, "JoinGroup", "leader"),
    ({"member_id": A}, {"member_id": X.replace("probe", "other")}, "JoinGroup", "member_id"),
    ({"member_id": A}, {"member_id": "probe-7"}, "JoinGroup", "member_id"),
    ({"member_id": A}, {"member_id": ""}, "JoinGroup", "member_id"),
    ({"member_id": ""}, {"member_id": X}, "JoinGroup", "member_id"),
    ({"member_id": SHORT}, {"member_id": X}, "ConsumerGroupHeartbeat", "member_id"),
    ({"member_id": SHORT}, {"member_id": f"{OTHER_SHORT}A"}, "ConsumerGroupHeartbeat", "member_id"),
    ({"member_id": A}, {"member_id": OTHER_SHORT}, "JoinGroup", "member_id"),
    ({"partitions": [0, 1]}, {"partitions": [0, 2]}, "ConsumerGroupHeartbeat", "partitions[1]: recorded 1, got 2"),
    ({"partitions": [0]}, {"partitions": [0, 0]}, "ConsumerGroupHeartbeat", "partitions: recorded 1 elements, got 2"),
    ({"subscribed_topic_names": ["a"]}, {"subscribed_topic_names": ["b"]}, "ConsumerGroupDescribe", "subscribed_topic_names[0]"),
    ({"member_id": "made-up-1"}, {"member_id": "made-up-2"}, "JoinGroup", "member_id"),
    ({"producer_id": 7}, {"producer_id": -1}, "InitProducerId", "producer_id"),
    ({"producer_id": -1}, {"producer_id": 7}, "InitProducerId", "producer_id"),
    ({"session_id": 5}, {"session_id": 0}, "Fetch", "session_id: recorded 5, got 0"),
    ({"session_id": 0}, {"session_id": 5}, "Fetch", "session_id"),
    ({"members": [{"member_id": A}]}, {"members": []}, "JoinGroup", "members: recorded 1 elements, got 0"),
    ({"members": []}, {"members": [{"member_id": X}]}, "JoinGroup", "members: recorded 0 elements, got 1"),
    ({"groups": [{"group_id": "a"}, {"group_id": "b"}]}, {"groups": [{"group_id": "b"}, {"group_id": "a"}]}, "DeleteGroups", "groups[0].group_id"),
    ({"partitions": [{"partition_index": 9}, {"partition_index": 0}]}, {"partitions": [{"partition_index": 0}, {"partition_index": 9}]}, "OffsetDelete", "partitions[0].partition_index"),
    ({"topics": [{"name": "a", "error_code": 3}]}, {"topics": [{"name": "a", "error_code": 0}]}, "Metadata", "topics[0].error_code"),
    ({"api_keys": [{"api_key": 1, "max_version": 3}]}, {"api_keys": [{"api_key": 1, "max_version": 4}]}, "ApiVersions", "api_keys[0].max_version"),
    ({"api_keys": []}, {"api_keys": [{"api_key": 1}]}, "ApiVersions", "api_keys: recorded 0 elements"),
    ({"configs": [{"name": "x", "value": "1"}]}, {"configs": [{"name": "x", "value": "2"}]}, "CreateTopics", "configs[0].value"),
    ([1, 2], [2, 1], "JoinGroup", "[0]: recorded 1, got 2"),
]  # fmt: skip


@pytest.mark.parametrize(("recorded", "ours", "api", "where"), DIFFERENT)
def test_difference_is_reported_with_its_path(recorded: object, ours: object, api: str, where: str) -> None:
    result = difference(recorded, ours, api)
    assert result is not None
    assert result.startswith(where)


def test_ids_agree_over_answers() -> None:
    bindings = Bindings(NAMES)
    comparison = Comparison(bindings, "JoinGroup")
    assert comparison.difference({"member_id": A}, {"member_id": X}) is None
    assert bindings.ours({"member_id": A, "members": [A, "made-up-1"]}) == {
        "member_id": X,
        "members": [X, "made-up-1"],
    }
    assert comparison.difference({"member_id": A}, {"member_id": Y}) is not None
    assert comparison.difference({"member_id": B}, {"member_id": X}) is not None  # one id cannot be bound twice


def test_numbers_agree_over_answers() -> None:
    bindings = Bindings({})
    comparison = Comparison(bindings, "InitProducerId")
    assert comparison.difference({"producer_id": 7}, {"producer_id": 3}) is None
    assert bindings.ours({"producer_id": 7}) == {"producer_id": 3}
    assert comparison.difference({"producer_id": 7}, {"producer_id": 4}) is not None


def test_bound_members_are_sorted_by_their_id() -> None:
    bindings = Bindings(NAMES)
    bindings.bind(A, Y)
    recorded = {"members": [{"member_id": A, "metadata": "a"}, {"member_id": B, "metadata": "b"}]}
    ours = {"members": [{"member_id": X, "metadata": "b"}, {"member_id": Y, "metadata": "a"}]}
    assert Comparison(bindings, "JoinGroup").difference(recorded, ours) is None
    assert bindings.ours(B) == X


def test_unbound_short_member_ids_do_not_affect_the_order() -> None:
    """Unbound ids are ignored when members are sorted; group names of the same length are not."""
    bindings = Bindings(NAMES)
    recorded = {"members": [{"member_id": SHORT, "member_epoch": 1}, {"member_id": "a", "member_epoch": 2}]}
    ours = {"members": [{"member_id": "a", "member_epoch": 2}, {"member_id": OTHER_SHORT, "member_epoch": 1}]}
    assert Comparison(bindings, "ConsumerGroupDescribe").difference(recorded, ours) is None
    assert bindings.ours(SHORT) == OTHER_SHORT
    named = [{"group_id": "g" * 22}, {"group_id": "a"}]
    assert difference({"groups": named}, {"groups": named[::-1]}, "ListGroups") is None


def test_only_selected_elements_of_a_list_are_compared() -> None:
    recorded, ours = {"topics": [{"name": "a"}, {"name": "left over"}]}, {"topics": [{"name": "a"}]}
    assert difference(recorded, ours, "Metadata") is not None
    assert difference(recorded, ours, "Metadata", only={"topics": lambda topic: topic["name"] == "a"}) is None


def test_long_values_are_shortened() -> None:
    result = difference({"metadata": "x" * 1000}, {"metadata": "y"})
    assert result is not None
    assert len(result) < 300


EXACTLY = [  # recorded, ours, whether an exact comparison finds them the same
    ({"error_message": f"{A} is gone"}, {"error_message": f"{X} is gone"}, True),
    ({"error_message": "at 1795318082549"}, {"error_message": "at 1795318999999"}, True),
    ({"error_message": "at most 5"}, {"error_message": "at most 6"}, False),
    ({"batch_index_error_message": "no"}, {"batch_index_error_message": "not so"}, False),
    ({"authorized_operations": ASKED}, {"authorized_operations": 1}, False),
    ({"finalized_features": [{"name": "x"}]}, {"finalized_features": []}, False),
    (
        {"supported_features": [{"name": "x"}, {"name": "y"}]},
        {"supported_features": [{"name": "y"}, {"name": "x"}]},
        True,
    ),
]


@pytest.mark.parametrize(("recorded", "ours", "same"), EXACTLY)
def test_exact_comparison_includes_texts_and_operations(recorded: object, ours: object, same: bool) -> None:
    for exactly in (True, False):
        bindings = Bindings(NAMES)
        bindings.bind(A, X)
        result = Comparison(bindings, "ApiVersions", exactly=exactly).difference(recorded, ours)
        assert (result is None) is (same or not exactly)
