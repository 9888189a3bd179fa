"""The description of a classic group for administrators."""

from __future__ import annotations

from mockbroker.groups.classic.description import to_json
from mockbroker.groups.classic.state import ClassicGroup, Member


def test_timeouts_of_a_member_are_in_milliseconds() -> None:
    group = ClassicGroup(group_id="g", initial_delay=0.0, protocol_type="consumer")
    group.add_member(
        Member(
            member_id="m",
            client_id="client",
            client_host="/127.0.0.1",
            session_timeout=10.0,
            rebalance_timeout=60.0,
            protocols=(("range", b""),),
        )
    )
    (member,) = to_json(group)["members"]
    assert (member["session_timeout_ms"], member["rebalance_timeout_ms"]) == (10_000, 60_000)
