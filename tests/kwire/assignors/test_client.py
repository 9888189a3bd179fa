"""Client-side assignors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.assignors import (
    COOPERATIVE,
    DEFAULT,
    EAGER,
    Assignment,
    Assignor,
    AssignorError,
    Partition,
    PlainAssignor,
    Subscription,
    Subscriptions,
    Topics,
    assignor,
    by_name,
    check,
    common_protocol,
    read_assignment,
    read_subscription,
    without_racks,
    write_assignment,
    write_subscription,
)
from kwire.assignors.client import GroupAssignment, in_map_order
from kwire.blobs import decode_stored, encode_stored
from kwire.blobs.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kwire.java import map_order, utf16

TOPICS = without_racks({"t": 2, "u": 1})
MEMBERS = {"a": Subscription(["t"]), "b": Subscription(["t", "u"])}
PARTITIONS = st.lists(st.tuples(st.sampled_from(["t", "u", "\uff21", "😀"]), st.integers(0, 9)), unique=True)


class Everything(Assignor):
    """The smallest possible assignor."""

    name = "everything"

    def assign(self, topics: Topics, members: Subscriptions) -> Mapping[str, Assignment]:
        first, *rest = members
        every = [(topic, number) for topic, listed in topics.items() for number in range(len(listed))]
        return {first: Assignment(every, b"all"), **dict.fromkeys(rest, Assignment())}


def test_one_of_your_own() -> None:
    one = Everything()
    assert (one.user_data(["t"]), one.protocols) == (None, (EAGER,))
    answer = one.assign(TOPICS, {"b": MEMBERS["b"]})
    check(answer, TOPICS, MEMBERS)
    one.on_assignment(answer["b"], 1)
    assert answer == {"b": Assignment([("t", 0), ("t", 1), ("u", 0)], b"all")}


class Nosy(PlainAssignor):
    """An assignor that gives everything to the last member, and records its calls."""

    name = "nosy"

    def share(self, counts: Mapping[str, int], subscribed: Mapping[str, Sequence[str]]) -> GroupAssignment:
        self.arguments = counts, subscribed
        *rest, last = subscribed
        every = [(topic, number) for topic, count in counts.items() for number in range(count)]
        return {last: every, **{member_id: [] for member_id in rest}}


def test_plain_assignor_gets_only_topics() -> None:
    topics = {"t": [Partition(["x"], "x"), Partition(["y"])]}
    reported = {"a": Subscription(["t"], b"heavy", [("t", 1)], 3, "x", "i"), "b": Subscription(["t"])}
    plain = Nosy()
    result = plain.assign(topics, reported)
    assert plain.arguments == ({"t": 2}, {"a": ["t"], "b": ["t"]})
    assert result == {"a": Assignment([]), "b": Assignment([("t", 0), ("t", 1)])}
    check(result, topics, reported)

    class Heaviest(Assignor):
        """An assignor that gives everything to the member whose user data asks for it."""

        name = "heaviest"

        def assign(self, topics: Topics, members: Subscriptions) -> Mapping[str, Assignment]:
            every = [(topic, number) for topic, listed in topics.items() for number in range(len(listed))]
            return {m: Assignment(every if member.user_data == b"heavy" else []) for m, member in members.items()}

    assert Heaviest().assign(topics, reported) == {"a": Assignment([("t", 0), ("t", 1)]), "b": Assignment([])}


NONSENSE = [
    ({"c": [("t", 0)]}, "partitions are assigned to 'c', which is not a member of the group"),
    ({"a": [("t", 2)]}, "t-2 is assigned to 'a', but the metadata has no such partition"),
    ({"a": [("t", -1)]}, "t--1 is assigned to 'a', but the metadata has no such partition"),
    ({"b": [("x", 0)]}, "x-0 is assigned to 'b', but the metadata has no such partition"),
    ({"a": [("u", 0)]}, "u-0 is assigned to 'a', which does not subscribe to u"),
    ({"a": [("t", 0)], "b": [("t", 1), ("t", 0)]}, "t-0 is assigned to 'b', but also to 'a'"),
    ({"a": [("t", 0), ("t", 1), ("t", 0)]}, "t-0 is assigned to 'a' twice"),
]


@pytest.mark.parametrize(("given", "problem"), NONSENSE)
def test_invalid_assignment_is_refused(given: Mapping[str, list[tuple[str, int]]], problem: str) -> None:
    with pytest.raises(AssignorError) as refused:
        check({member_id: Assignment(listed) for member_id, listed in given.items()}, TOPICS, MEMBERS)
    assert str(refused.value) == problem


def test_a_cooperative_answer_takes_nothing_from_its_owner() -> None:
    members = {"a": Subscription(["t"], None, [("t", 0), ("t", 1)], 1), "b": Subscription(["t"], None, [("t", 1)], 1)}
    check({"b": Assignment([("t", 1)])}, TOPICS, members, COOPERATIVE)  # both claim to own it
    moved = {"b": Assignment([("t", 0)])}
    check(moved, TOPICS, members)
    with pytest.raises(AssignorError, match="t-0 is assigned to 'b', but 'a' owns it and must revoke it first"):
        check(moved, TOPICS, members, COOPERATIVE)


def test_partitions_may_be_left_out() -> None:
    check({"a": Assignment([("t", 0)])}, TOPICS, MEMBERS)


def test_names_differ() -> None:
    assert list(by_name(map(assignor, DEFAULT))) == list(DEFAULT)
    with pytest.raises(AssignorError, match="StickyAssignor and FirstStickyAssignor have the same name 'sticky'"):
        by_name([assignor("sticky"), assignor("sticky-0.11")])


class OnlyCooperative(Everything):
    protocols = (COOPERATIVE,)


@pytest.mark.parametrize(
    ("carried", "protocol"),
    [
        (["range", "cooperative-sticky"], EAGER),
        (["cooperative-sticky"], COOPERATIVE),
        (["sticky"], EAGER),
    ],
)
def test_a_member_is_cooperative_if_all_it_carries_are(carried: list[str], protocol: str) -> None:
    assert common_protocol([assignor(name) for name in carried]) == protocol


def test_nothing_in_common() -> None:
    with pytest.raises(
        AssignorError,
        match="range, everything have no rebalance protocol in common: use only eager or only cooperative assignors",
    ):
        common_protocol([assignor("range"), OnlyCooperative()])


@given(PARTITIONS, st.sampled_from(range(4)), st.none() | st.binary(max_size=3))
def test_a_subscription_through_its_bytes(owned: list[tuple[str, int]], version: int, user_data: bytes | None) -> None:
    reported = Subscription(["u", "😀", "\uff21"], user_data, owned, 4, "x")
    blob, _ = decode_stored(ConsumerProtocolSubscription, encode_stored(write_subscription(reported), version))
    received = read_subscription(blob, "i")
    assert (received.topics, received.user_data, received.instance_id) == (
        ["u", "😀", "\uff21"],
        user_data,
        "i",
    )  # by UTF-16 units
    assert received.owned == (sorted(owned, key=lambda p: (utf16(p[0]), p[1])) if version >= 1 else [])
    assert received.generation == (4 if version >= 2 else -1)
    assert received.rack_id == ("x" if version >= 3 else None)


@given(PARTITIONS, st.none() | st.binary(max_size=3))
def test_an_assignment_through_its_bytes(partitions: list[tuple[str, int]], user_data: bytes | None) -> None:
    blob = write_assignment(Assignment(partitions, user_data))
    received = read_assignment(decode_stored(ConsumerProtocolAssignment, encode_stored(blob, 1))[0])
    topics = list(dict.fromkeys(topic for topic, _ in partitions))
    assert received.partitions == sorted(partitions, key=lambda p: topics.index(p[0]))
    assert received.user_data == user_data


def test_members_are_walked_as_in_a_hash_map() -> None:
    ids = [f"consumer-{number}" for number in range(20)]
    assert [member_id for member_id, _ in in_map_order(dict.fromkeys(ids, Subscription([])))] == map_order(ids)
