from __future__ import annotations

from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.messages.join_group import JoinGroupResponse
from mockbroker.replay.variables import Variables, ids_in, rewrite


def test_an_id_takes_the_place_of_one_other() -> None:
    variables = Variables()
    variables.bind("recorded", "live")
    assert (variables.live("recorded"), variables.recorded("live")) == ("live", "recorded")
    assert (variables.live("other"), variables.recorded("other")) == ("other", None)
    pairs = [("recorded", "live"), ("recorded", "other"), ("other", "live"), ("third", "fourth")]
    assert [variables.can_bind(*pair) for pair in pairs] == [True, False, False, True]


def test_ids_are_found_and_replaced_in_nested_structs() -> None:
    members = [JoinGroupResponse.Member(member_id="a"), JoinGroupResponse.Member(member_id="b")]
    response = JoinGroupResponse(member_id="a", leader="b", members=members)
    assert list(ids_in(response, 9)) == ["a", "a", "b"]
    rewrite(response, 9, lambda _, text: text.upper())
    assert (response.leader, [member.member_id for member in response.members]) == ("B", ["A", "B"])
    assert list(ids_in(ConsumerGroupHeartbeatRequest(group_id="g"), 0)) == []
