"""Properties of all client-side assignors, for any group."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

import pytest
from client_groups import Shares, as_read, shares
from effort import amount
from hypothesis import given, settings
from hypothesis import strategies as st

from kwire.assignors import (
    CLIENT,
    SERVER,
    MemberSubscription,
    Partition,
    Subscription,
    Topics,
    assign,
    assignor,
    check,
    without_racks,
)

COUNTS = st.dictionaries(st.sampled_from("tuvwx"), st.integers(1, 9), min_size=1)
IDS = st.lists(st.integers(0, 99).map("c-{}".format), min_size=1, max_size=9, unique=True)
STICKY = ["sticky", "sticky-0.11", "cooperative-sticky"]
RACKS = ["x", "y", ""]


@st.composite
def mixed(draw: st.DrawFn) -> tuple[Topics, dict[str, Subscription]]:
    """Return new members with different subscriptions, some with racks."""
    counts = draw(COUNTS)
    racks = st.lists(st.sampled_from(["x", "y", "z", None]), max_size=2)
    topics = {topic: [Partition(draw(racks)) for _ in range(count)] for topic, count in counts.items()}
    wanted = st.lists(st.sampled_from(sorted(counts)), min_size=1, unique=True)
    rack = st.none() | st.sampled_from(RACKS)
    return topics, {m: Subscription(draw(wanted), rack_id=draw(rack)) for m in draw(IDS)}


@st.composite
def changes(draw: st.DrawFn) -> tuple[Topics, list[str], list[str]]:
    """Return topics, the members of a group that subscribes to all of them, and the members after a change."""
    return without_racks(draw(COUNTS)), draw(IDS), draw(IDS)


def all_of(topics: Topics, members: Mapping[str, Subscription]) -> list[tuple[str, int]]:
    wanted = {topic for member in members.values() for topic in member.topics}
    return sorted((topic, number) for topic in wanted for number in range(len(topics[topic])))


def given_out(found: Shares) -> list[tuple[str, int]]:
    return sorted(partition for listed in found.values() for partition in listed)


def again(name: str, topics: Topics, found: Shares, ids: list[str], generation: int = 1) -> Shares:
    """Return the next assignment, for members ``ids`` that subscribe to everything."""
    members = {}
    for member_id in ids:
        member = assignor(name)
        owned = found.get(member_id, [])
        if member_id in found:
            member.on_assignment(as_read(owned), generation)
        said_generation = generation if member_id in found else -1
        members[member_id] = Subscription(list(topics), member.user_data(topics), owned, said_generation)
    answer = assignor(name).assign(topics, members)
    check(answer, topics, members, assignor(name).protocols[0])
    return shares(answer)


def kept(before: Shares, after: Shares) -> int:
    return sum(len({*listed} & {*before.get(member_id, [])}) for member_id, listed in after.items())


@pytest.mark.parametrize("name", CLIENT)
@settings(max_examples=amount(40, 100))
@given(mixed())
def test_every_partition_has_one_subscribed_owner(name: str, group: tuple[Topics, dict[str, Subscription]]) -> None:
    topics, members = group
    answer = assignor(name).assign(topics, members)
    check(answer, topics, members)
    assert answer.keys() == members.keys()
    assert given_out(shares(answer)) == all_of(topics, members)


@pytest.mark.parametrize("name", SERVER)
@settings(max_examples=amount(40, 100))
@given(mixed(), st.data())
def test_so_it_is_with_those_of_the_broker(name: str, group: tuple[Topics, dict[str, Subscription]], data) -> None:
    """This includes earlier assignments of members that have left or changed their subscriptions."""
    topics, subscriptions = group
    ids = {topic: UUID(int=n + 1) for n, topic in enumerate(topics)}
    counts = {ids[topic]: len(listed) for topic, listed in topics.items()}
    before: dict[str, dict[UUID, list[int]]] = {}
    for _ in range(3):
        members = {
            member_id: MemberSubscription([ids[topic] for topic in member.topics], before.get(member_id, {}))
            for member_id, member in subscriptions.items()
        }
        result = assign(name, members, counts)
        assert result.keys() == members.keys()
        assert all(topic_id in members[who].topic_ids for who, share in result.items() for topic_id in share)
        shared = sorted((t, n) for share in result.values() for t, numbers in share.items() for n in numbers)
        wanted = {topic_id for member in members.values() for topic_id in member.topic_ids}
        assert shared == sorted((topic_id, n) for topic_id in wanted for n in range(counts[topic_id]))
        before, kinds = result, st.lists(st.sampled_from(sorted(topics)), min_size=1, unique=True)
        stay = data.draw(st.lists(st.sampled_from(sorted(subscriptions)), unique=True))
        subscriptions = {who: Subscription(data.draw(kinds)) for who in [*stay, "new"]}


@pytest.mark.parametrize("name", CLIENT)
@settings(max_examples=amount(40, 100))
@given(COUNTS, IDS)
def test_balance_of_homogeneous_groups(name: str, counts: dict[str, int], ids: list[str]) -> None:
    """Loads differ by at most one; with range, by at most one per topic."""
    result = again(name, without_racks(counts), {}, ids)
    loads = [len(listed) for listed in result.values()]
    assert max(loads) - min(loads) <= (len(counts) if name == "range" else 1)
    for topic in counts:
        of_topic = [sum(one == topic for one, _ in listed) for listed in result.values()]
        assert name != "range" or max(of_topic) - min(of_topic) <= 1


@pytest.mark.parametrize("name", STICKY)
@settings(max_examples=amount(40, 100))
@given(mixed())
def test_balance_of_others(name: str, group: tuple[Topics, dict[str, Subscription]]) -> None:
    """No member could get a partition from a member that has two more."""
    topics, members = group
    result = shares(assignor(name).assign(topics, members))
    for listed in result.values():
        for topic, _ in listed:
            for other, member in members.items():
                assert topic not in member.topics or len(result[other]) >= len(listed) - 1


@pytest.mark.parametrize("name", STICKY)
@settings(max_examples=amount(40, 100))
@given(changes())
def test_nothing_moves_while_nothing_changes(name: str, change: tuple[Topics, list[str], list[str]]) -> None:
    topics, ids, _ = change
    first = again(name, topics, {}, ids)
    second = again(name, topics, first, ids)
    assert {m: sorted(listed) for m, listed in second.items()} == {m: sorted(listed) for m, listed in first.items()}


@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])
@settings(max_examples=amount(40, 100))
@given(changes())
def test_as_sticky_as_round_robin_or_more(name: str, change: tuple[Topics, list[str], list[str]]) -> None:
    """In homogeneous groups both are balanced, and no balanced assignment keeps more partitions."""
    topics, before, after = change
    first = again(name, topics, {}, before)
    assert kept(first, again(name, topics, first, after)) >= kept(first, again("roundrobin", topics, first, after))


@settings(max_examples=amount(40, 100))
@given(changes())
def test_cooperative_takes_two_generations(change: tuple[Topics, list[str], list[str]]) -> None:
    """The first assigns no partition that another member owns, the second assigns the rest, the third moves nothing."""
    topics, before, after = change
    name = "cooperative-sticky"
    first = again(name, topics, {}, before)
    second = again(name, topics, first, after)
    owned = {partition: m for m, listed in first.items() for partition in listed if m in after}
    assert all(owned.get(partition, m) == m for m, listed in second.items() for partition in listed)
    third = again(name, topics, second, after, 2)
    assert given_out(third) == [(topic, n) for topic in sorted(topics) for n in range(len(topics[topic]))]
    assert kept(second, third) == len(given_out(second))
    assert kept(third, again(name, topics, third, after, 3)) == len(given_out(third))


CLAIMS = st.lists(st.tuples(st.sampled_from("tuvwxy"), st.integers(-1, 9)), max_size=9)


@pytest.mark.parametrize("name", STICKY)
@settings(max_examples=amount(40, 100))
@given(st.data(), COUNTS)
def test_no_claim_breaks_it(name: str, data: st.DataObject, counts: dict[str, int]) -> None:
    """The assignor ends, and assigns no existing partition twice, whatever members claim."""
    topics = without_racks(counts)
    members = {}
    for member_id in data.draw(IDS):
        reported = assignor(name)
        reported.on_assignment(as_read(data.draw(CLAIMS)), data.draw(st.integers(-2, 3)))
        members[member_id] = Subscription(
            topics=data.draw(st.lists(st.sampled_from("tuvwxy"), max_size=3, unique=True)),
            user_data=data.draw(st.sampled_from([reported.user_data(()), None, b""]) | st.binary(max_size=20)),
            owned=data.draw(CLAIMS),
            generation=data.draw(st.integers(-2, 3)),
        )
    result = shares(assignor(name).assign(topics, members))
    every = given_out(result)
    assert result.keys() == members.keys()
    assert len(every) == len(set(every))
    assert set(every) <= set(all_of(topics, {"all": Subscription(list(topics))}))
