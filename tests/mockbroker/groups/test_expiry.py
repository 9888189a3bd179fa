"""Expiration of committed offsets."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

import pytest

from kwire.blobs import encode_stored
from kwire.blobs.consumer_protocol import ConsumerProtocolSubscription
from mockbroker.groups.classic.group_type import CLASSIC_TYPE
from mockbroker.groups.classic.state import ClassicGroup, Member, State
from mockbroker.groups.expiry import delete_expired, next_expiry
from mockbroker.groups.offsets import Committed

WEEK = 7 * 86_400.0
HOUR = 3_600.0


def group(
    state: State = State.EMPTY,
    protocol_type: str = "consumer",
    *,
    since: float = 0.0,
    topics: Sequence[str] = ("read",),
    metadata: bytes | None = None,
    **committed: Any,
) -> ClassicGroup:
    result = ClassicGroup(group_id="g", initial_delay=0.0, state=state, protocol_type=protocol_type, state_since=since)
    if state is not State.EMPTY:
        subscription = encode_stored(ConsumerProtocolSubscription(topics=list(topics)), 1)
        result.protocol = "range"
        result.add_member(
            Member(
                member_id="a",
                client_id="",
                client_host="",
                session_timeout=1.0,
                rebalance_timeout=1.0,
                protocols=(("range", subscription if metadata is None else metadata),),
            )
        )
    result.offsets.store("read", 0, Committed(offset=1, **committed))
    result.offsets.store("other", 0, Committed(offset=1, **committed))
    return result


CASES = [  # group, time, expired topics
    ("a simple consumer counts from the commit", group(protocol_type="", at=10.0), WEEK + 10, {"read", "other"}),
    ("and not before", group(protocol_type="", at=10.0), WEEK + 9, set()),
    ("an Empty group counts from when it became empty", group(since=HOUR, at=10.0), WEEK + 10, set()),
    ("until that is over", group(since=HOUR, at=10.0), WEEK + HOUR, {"read", "other"}),
    ("or from a later commit", group(since=0.0, at=HOUR), WEEK + 10, set()),
    ("in Stable only topics without subscribers", group(State.STABLE, at=0.0), WEEK, {"other"}),
    (
        "nothing if a subscription cannot be decoded",
        group(State.STABLE, metadata=b"\0\1\xff\xff\xff\xff", at=0.0),
        WEEK,
        set(),
    ),
    ("nothing of another type", group(State.STABLE, "connect", at=0.0), WEEK, set()),
    ("nothing in Preparing", group(State.PREPARING, at=0.0), WEEK, set()),
    ("nothing in Completing", group(State.COMPLETING, at=0.0), WEEK, set()),
    ("a retention of its own", group(protocol_type="", at=0.0, expires=60.0), 60.0, {"read", "other"}),
    ("that may be longer", group(protocol_type="", at=0.0, expires=2 * WEEK), WEEK, set()),
]


@pytest.mark.parametrize(("found", "now", "gone"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_expired_offsets(found, now, gone):
    assert {topic for topic, _ in delete_expired(found.offsets, CLASSIC_TYPE.retention_start(found), now, WEEK)} == gone
    assert {topic for topic, _ in found.offsets.committed} == {"read", "other"} - gone


def test_a_group_without_members_and_offsets_is_deletable():
    result = group(protocol_type="", at=0.0)
    assert not result.is_deletable
    delete_expired(result.offsets, CLASSIC_TYPE.retention_start(result), WEEK, WEEK)
    assert result.is_deletable
    result.pending_members["p"] = 1.0
    assert not result.is_deletable


def test_offset_with_a_pending_transaction_does_not_expire() -> None:
    """OffsetMetadataManager.cleanupExpiredOffsets keeps offsets of open transactions."""
    empty = group()
    empty.offsets.store_transactional(7, 0, "read", 0, Committed(offset=9))
    expired = delete_expired(empty.offsets, lambda _topic, _committed: 0.0, WEEK, WEEK)
    assert expired == [("other", 0)]
    assert ("read", 0) in empty.offsets.committed


NEXT = [  # start of the retention by topic, expiry of the request (v2 to v4), time of the next expiry
    ({"read": 5.0, "other": 3.0}, None, 3.0 + WEEK),
    ({"read": 5.0, "other": None}, None, 5.0 + WEEK),
    ({"read": None, "other": None}, None, inf),
    ({"read": 5.0, "other": 3.0}, 77.0, 77.0),
]


@pytest.mark.parametrize(("starts", "expires", "expected"), NEXT)
def test_time_of_the_next_expiry(starts: dict[str, float | None], expires: float | None, expected: float) -> None:
    offsets = group(expires=expires).offsets
    assert next_expiry(offsets, lambda topic, _committed: starts[topic], WEEK) == expected


@pytest.mark.parametrize(("now", "count"), [(WEEK, 2), (WEEK - 0.001, 0)])
def test_offset_expires_exactly_after_the_retention(now: float, count: int) -> None:
    assert len(delete_expired(group().offsets, lambda _topic, _committed: 0.0, now, WEEK)) == count


def test_a_group_with_offsets_of_an_open_transaction_stays():
    group = ClassicGroup(group_id="g", initial_delay=0.0)
    group.offsets.store_transactional(7, 0, "t", 0, Committed(offset=5))
    assert not group.is_deletable
    group.offsets.end_transaction(7, committed=False)
    assert group.is_deletable
