from __future__ import annotations

from uuid import UUID

import pytest

from kwire.analysis.what_if.replay import NAMES, replay_of
from kwire.assignors import CLIENT, SERVER, AssignorError, Subscription, without_racks

TEA = without_racks({"tea": 4})
A, B = ({name: Subscription(["tea"])} for name in "ab")
BOTH = A | B


def unknown(topic: str) -> None:
    """Return no id."""


def of(numbers: str) -> list[tuple[str, int]]:
    return [("tea", int(number)) for number in numbers]


KINDS = [
    ("range", "classic", "eager"),
    ("range", "consumer", "consumer"),
    ("roundrobin", "classic", "eager"),
    ("roundrobin", "consumer", "eager"),
    ("sticky", "consumer", "eager"),
    ("sticky-0.11", "classic", "eager"),
    ("cooperative-sticky", "classic", "cooperative"),
    ("uniform", "classic", "consumer"),
]


@pytest.mark.parametrize(("name", "protocol", "kind"), KINDS)
def test_kinds(name: str, protocol: str, kind: str) -> None:
    assert replay_of(name, protocol, unknown).kind == kind
    assert {*NAMES} == {*CLIENT, *SERVER} == {one for one, _, _ in KINDS}


def test_unknown_assignor_is_refused() -> None:
    with pytest.raises(AssignorError, match="'best': use one of range, roundrobin, sticky, cooperative-sticky"):
        replay_of("best", "classic", unknown)


def test_sticky_members_remember() -> None:
    replay = replay_of("sticky", "classic", unknown)
    assert replay.assign(A, TEA, 1, "a") == ({"a": of("0123")}, False)
    assert replay.assign(BOTH, TEA, 2, "ab") == ({"a": of("01"), "b": of("23")}, False)
    assert replay.assign(B, TEA, 3, "b")[0] == {"b": of("2301")}


def test_member_without_its_share_does_not_remember_it() -> None:
    replay = replay_of("sticky", "classic", unknown)
    replay.assign(A, TEA, 1, "a")
    replay.assign(BOTH, TEA, 2, "a")
    assert replay.assign(BOTH, TEA, 3, "ab")[0] == {"a": of("01"), "b": of("23")}
    forgets = replay_of("sticky", "classic", unknown)
    forgets.assign(BOTH, TEA, 1, "")
    forgets.owns({"b": of("01")}, 2)
    assert forgets.assign(BOTH, TEA, 3, "ab")[0] == {"a": of("23"), "b": of("01")}


def test_cooperative_members_take_two_generations() -> None:
    replay = replay_of("cooperative-sticky", "classic", unknown)
    assert replay.assign(A, TEA, 1, "a") == ({"a": of("0123")}, False)
    assert replay.assign(BOTH, TEA, 2, "ab") == ({"a": of("01"), "b": []}, True)
    assert replay.assign(BOTH, TEA, 3, "ab") == ({"a": of("01"), "b": of("23")}, False)


def test_unsubscribed_topic_is_not_owned() -> None:
    replay = replay_of("cooperative-sticky", "classic", unknown)
    topics = without_racks({"cake": 1, "tea": 1})
    every = {"a": Subscription(["cake", "tea"])}
    assert replay.assign(every, topics, 1, "a")[0] == {"a": [("cake", 0), ("tea", 0)]}
    assert replay.assign(A, without_racks({"tea": 1}), 2, "a") == ({"a": [("tea", 0)]}, False)


@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky", "uniform"])
def test_a_static_member_under_another_id(name: str) -> None:
    replay = replay_of(name, "classic", {"tea": UUID(int=9)}.get)
    replay.assign(BOTH, TEA, 1, "ab")
    (held,) = (share for member, share in replay.assign(BOTH, TEA, 2, "ab")[0].items() if member == "b")
    replay.rename("b", "z")
    found, _ = replay.assign({**A, "z": Subscription(["tea"])}, TEA, 3, "az")
    assert sorted(found["z"]) == sorted(held)


@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky", "uniform"])
def test_replay_starts_with_owned_partitions(name: str) -> None:
    replay = replay_of(name, "classic", unknown)
    replay.owns({"a": of("13"), "b": of("02")}, 6)
    found, _ = replay.assign(BOTH, TEA, 7, "ab")
    assert {member: sorted(share) for member, share in found.items()} == {"a": of("13"), "b": of("02")}


def test_broker_assignor_moves_only_what_it_must() -> None:
    replay = replay_of("uniform", "consumer", {"tea": UUID(int=1)}.get)
    assert replay.assign(A, TEA, 1, "")[0] == {"a": of("0123")}
    assert replay.assign(BOTH, TEA, 2, "")[0] == {"a": of("01"), "b": of("23")}
    assert replay.assign(B, TEA, 3, "")[0] == {"b": of("0123")}
