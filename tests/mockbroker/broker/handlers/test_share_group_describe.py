"""ShareGroupDescribe: the description of a share group, and the errors for other group ids."""

from __future__ import annotations

from tools.broker_harness import stable_member
from tools.share_group_harness import VERSION, ShareGroupHarness

from kwire import ErrorCode as E
from kwire.messages.delete_groups import DeleteGroupsRequest
from kwire.messages.list_groups import ListGroupsRequest
from kwire.messages.share_group_describe import ShareGroupDescribeRequest
from mockbroker.base.release import RELEASES
from mockbroker.broker.handlers.handler import GROUP_OPERATIONS
from mockbroker.share.state import StateKey


def test_a_group_is_described_with_its_members() -> None:
    harness = ShareGroupHarness()
    harness.enter("a", ["t", "nowhere"], rack_id="r")
    harness.settle()
    group = harness.describe()
    assert (group.group_state, group.group_epoch, group.assignment_epoch, group.assignor_name) == (
        "Stable",
        2,
        2,
        "simple",
    )
    (member,) = group.members
    assert (member.member_id, member.rack_id, member.member_epoch, member.client_id) == ("a", "r", 2, "a")
    assert sorted(member.subscribed_topic_names) == ["nowhere", "t"]
    (topic,) = member.assignment.topic_partitions
    assert (topic.topic_name, topic.partitions) == ("t", [0, 1])
    assert group.authorized_operations < 0


def test_operations_are_described_if_requested() -> None:
    harness = ShareGroupHarness()
    harness.enter("a")
    request = ShareGroupDescribeRequest(group_ids=["g"], include_authorized_operations=True)
    assert harness.ask(request, VERSION).groups[0].authorized_operations == GROUP_OPERATIONS


def test_groups_that_are_no_share_groups_get_an_error() -> None:
    harness = ShareGroupHarness()
    stable_member(harness, "classic")
    results = [harness.describe(name) for name in ("none", "classic", "")]
    assert [(each.error_code, each.error_message) for each in results] == [
        (E.GROUP_ID_NOT_FOUND, "Group none not found."),
        (E.GROUP_ID_NOT_FOUND, "Group classic is not a share group."),
        (E.INVALID_GROUP_ID, None),
    ]


def test_without_share_groups_the_version_is_unsupported() -> None:
    harness = ShareGroupHarness(release=RELEASES["4.1"])
    assert harness.describe().error_code == E.UNSUPPORTED_VERSION


def test_groups_are_listed_by_type_and_state() -> None:
    harness = ShareGroupHarness()
    stable_member(harness, "classic")
    harness.enter("a")

    def listed(**filters: list[str]) -> list[tuple[str, str, str, str]]:
        result = harness.ask(ListGroupsRequest(**filters), 5).groups
        return [(each.group_id, each.group_type, each.protocol_type, each.group_state) for each in result]

    stable = ("g", "share", "share", "Stable")
    assert listed(types_filter=["Share"]) == [stable]
    assert listed(types_filter=["share"], states_filter=["empty"]) == []
    harness.leave("a")
    assert listed(types_filter=["share"], states_filter=["empty"]) == [("g", "share", "share", "Empty")]


def test_deletion_of_a_group_deletes_its_share_state() -> None:
    harness = ShareGroupHarness()
    harness.enter("a")
    harness.settle()
    delete = DeleteGroupsRequest(groups_names=["g"])
    assert harness.ask(delete, 2).results[0].error_code == E.NON_EMPTY_GROUP
    harness.leave("a")
    key = StateKey("g", harness.topic_id("t"), 0)
    assert harness.broker.share_states.summary(key) is not None
    assert harness.ask(delete, 2).results[0].error_code == E.NONE
    assert harness.broker.share_states.summary(key) is None
    assert harness.describe().error_code == E.GROUP_ID_NOT_FOUND
