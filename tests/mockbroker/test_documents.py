"""Facts about groups and their coordinators from docs/sources.md, tested on whole clusters."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tools.assignor_members import AssignorHarness
from tools.broker_harness import BrokerHarness

from kwire import ErrorCode as E
from kwire.assignors import read_assignment
from kwire.blobs import decode_stored
from kwire.blobs.consumer_protocol import ConsumerProtocolAssignment
from kwire.blobs.offsets_topic import GroupMetadataKey, GroupMetadataValue
from kwire.messages.create_partitions import CreatePartitionsRequest
from kwire.messages.describe_groups import DescribeGroupsRequest
from kwire.messages.find_coordinator import FindCoordinatorRequest
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.list_groups import ListGroupsRequest
from kwire.messages.metadata import MetadataRequest
from kwire.messages.offset_commit import OffsetCommitRequest
from kwire.messages.offset_fetch import OffsetFetchRequest
from kwire.messages.produce import ProduceRequest
from kwire.records import Record, build_batch
from mockbroker.base.release import RELEASES


def numbers(harness: AssignorHarness, group: str = "g") -> dict[str, list[int]]:
    """Return the partitions of each member of a group that reads one topic."""
    return {name: sorted(index for _, index in share) for name, share in harness.shares(group).items()}


def grow(harness: BrokerHarness, topic: str, count: int) -> None:
    wanted = CreatePartitionsRequest.Topic(name=topic, count=count, assignments=None)
    answer = harness.ask(CreatePartitionsRequest(topics=[wanted], timeout_ms=1_000), 3)
    assert [result.error_code for result in answer.results] == [E.NONE]


def described(harness: BrokerHarness, group: str = "g") -> Any:
    (found,) = harness.ask(DescribeGroupsRequest(groups=[group]), 5, node=harness.broker.coordinator(group)).groups
    return found


def reasons(harness: BrokerHarness) -> list[str]:
    """Return the reasons of all rebalances, with client ids instead of member ids."""
    names = {event.member_id: event.client for event in harness.journal.events if event.member_id and event.client}
    results = [event.reason for event in harness.journal.events if event.event == "rebalance"]
    for member_id, name in names.items():
        results = [reason.replace(member_id, name) for reason in results]
    return results


# --- groups and partitions ---------------------------------------------------------------------------------------


def test_four_members_and_two_in_two_groups_of_four_partitions() -> None:
    harness = AssignorHarness(brokers=3, topics={"t": 4})
    for number in range(4):
        harness.member(f"A{number}", group="A")
    for number in range(2):
        harness.member(f"B{number}", group="B")
    harness.settle()
    assert numbers(harness, "A") == {"A0": [0], "A1": [1], "A2": [2], "A3": [3]}
    assert numbers(harness, "B") == {"B0": [0, 1], "B1": [2, 3]}


def test_two_groups_read_the_same_partitions_independently() -> None:
    harness = AssignorHarness(brokers=3, topics={"t": 4})
    values = {index: [f"{index}-{number}".encode() for number in range(5)] for index in range(4)}
    for index, listed in values.items():
        harness.fill("t", listed, index)
    ahead, behind = harness.member("ahead", group="A"), harness.member("behind", group="B")
    harness.settle()
    everything = sorted((index, value) for index, listed in values.items() for value in listed)
    assert sorted(ahead.read()) == everything
    assert ahead.commit() == E.NONE
    assert (ahead.committed(), behind.committed()) == ({("t", index): 5 for index in range(4)}, {})
    assert sorted(behind.read()) == everything
    before = behind.generation
    ahead.leave()  # causes no rebalance of the other group
    harness.settle()
    assert (behind.generation, behind.errors) == (before, [])
    assert behind.commit() == E.NONE
    harness.fill("t", [b"more"], 2)
    assert behind.read() == [(2, b"more")]
    assert behind.commit() == E.NONE
    back = harness.member("back", group="A")
    harness.settle()
    assert back.read() == [(2, b"more")]
    assert behind.committed() == {("t", 0): 5, ("t", 1): 5, ("t", 2): 6, ("t", 3): 5}
    assert back.committed() == {("t", index): 5 for index in range(4)}


def test_seven_partitions_as_consumers_come() -> None:
    harness = AssignorHarness(topics={"t": 7})
    seen = []
    for name in ("C0", "C1", "C2"):
        harness.member(name)
        harness.settle()
        seen.append(numbers(harness))
    assert seen == [
        {"C0": [0, 1, 2, 3, 4, 5, 6]},
        {"C0": [0, 1, 2, 3], "C1": [4, 5, 6]},
        {"C0": [0, 1, 2], "C1": [3, 4], "C2": [5, 6]},
    ]


def test_eighth_member_of_seven_partitions_idles_till_one_leaves() -> None:
    harness = AssignorHarness(topics={"t": 7})
    members = [harness.member(f"C{number}") for number in range(8)]
    harness.settle()
    assert numbers(harness) == {f"C{number}": [number] for number in range(7)} | {"C7": []}
    harness.live(60.0)  # six session timeouts
    assert members[7].heartbeat() == E.NONE
    result = described(harness)
    assert (result.group_state, len(result.members)) == ("Stable", 8)
    members[3].leave()
    harness.settle()
    assert numbers(harness) == {"C0": [0], "C1": [1], "C2": [2], "C4": [3], "C5": [4], "C6": [5], "C7": [6]}


changes = st.lists(
    st.sampled_from(["comes", "leaves", "falls silent", "subscribes otherwise", "the topic grows"]), max_size=6
)


@pytest.mark.parametrize("carried", ["range", "roundrobin", "sticky", "sticky-0.11", "cooperative-sticky"])
@settings(max_examples=20)
@given(st.data(), changes)
def test_each_subscribed_partition_has_one_owner_after_rebalance(
    carried: str, data: st.DataObject, changes: list[str]
) -> None:
    topics = {"t": 3, "u": 2}
    harness = AssignorHarness(topics=topics)
    wishes = st.sampled_from([("t",), ("u",), ("t", "u")])
    harness.member("m0", carried, topics=data.draw(wishes))
    for number, change in enumerate(["comes", *changes], 1):
        member = data.draw(st.sampled_from(harness.members)) if harness.members else None
        match change:
            case "leaves" if member:
                member.leave() if member.member_id else member.stop()
            case "falls silent" if member:
                member.stop()
            case "subscribes otherwise" if member:
                member.subscribe(*data.draw(wishes))
            case "the topic grows":
                topics["t"] += 1
                grow(harness, "t", topics["t"])
            case _:
                harness.member(f"m{number}", carried, topics=data.draw(wishes))
        harness.live(15.0)  # until silent members have been evicted
        harness.settle()
        owned = Counter(partition for share in harness.shares().values() for partition in share)
        subscribed = {topic for member in harness.members for topic in member.topics}
        assert owned == Counter((topic, index) for topic in subscribed for index in range(topics[topic]))
        assert all(topic in member.topics for member in harness.members for topic, _ in member.share)


# --- coordinators ------------------------------------------------------------------------------------------------


def home(group_id: str, partitions: int = 50) -> int:
    """Return the partition of the offsets topic for an ASCII group id, computed from Java's hash code."""
    value = 0
    for letter in group_id:
        value = (value * 31 + ord(letter)) % 2**32
    return abs(value - 2**32 if value >= 2**31 else value) % partitions


def test_broker_coordinates_the_groups_of_partitions_it_leads() -> None:
    harness = BrokerHarness(brokers=3)
    names = [f"group-{number}" for number in range(150)]
    homes: dict[int, set[str]] = {0: set(), 1: set(), 2: set()}
    for name in names:
        homes[harness.leader("__consumer_offsets", home(name))].add(name)
        answers = [harness.send(BrokerHarness.join(name), 3, node=node).answer.error_code for node in range(3)]
        assert Counter(answers) == {E.NONE: 1, E.NOT_COORDINATOR: 2}
    results = [{g.group_id for g in harness.ask(ListGroupsRequest(), 5, node=node).groups} for node in range(3)]
    assert results == [homes[node] for node in range(3)]
    assert all(len(listed) >= 30 for listed in results)


def test_broker_1_advertises_itself_as_broker_3() -> None:
    harness = BrokerHarness(brokers=3, first_node=1)
    name = next(f"g{number}" for number in range(50) if harness.broker.coordinator(f"g{number}") == 3)
    assert harness.leader("__consumer_offsets", home(name)) == 3
    assert harness.send(BrokerHarness.join(name), 3, node=1).answer.error_code == E.NOT_COORDINATOR
    answer = harness.ask(FindCoordinatorRequest(key=name), 3, node=1)
    assert (answer.node_id, answer.host, answer.port) == (3, "127.0.0.1", harness.broker.cluster.nodes[3].port)
    assert harness.send(BrokerHarness.join(name), 3, node=3).answer.error_code == E.NONE


def test_whoever_is_asked_the_coordinator_is_the_same() -> None:
    """All brokers return the same coordinator, so a client may ask any of them; also for a group that does not
    exist."""
    harness = BrokerHarness(brokers=3)
    before = {name: harness.broker.coordinator(name) for name in ("g", "h", "i")}
    assert set(before.values()) == {0, 1, 2}
    for name, node in before.items():
        requested = [harness.ask(FindCoordinatorRequest(key=name), 3, node=each) for each in range(3)]
        assert [(answer.node_id, answer.port) for answer in requested] == [
            (node, harness.broker.cluster.nodes[node].port)
        ] * 3
    assert harness.broker.groups == {}


def test_only_the_leader_of_a_partition_accepts_records() -> None:
    """Producers and consumers use brokers that share the leadership of all partitions."""
    harness = AssignorHarness(brokers=3, topics={"t": 6, "u": 3})
    known = harness.ask(MetadataRequest(topics=None), 12, node=1)
    assert sorted(broker.node_id for broker in known.brokers) == [0, 1, 2]
    ours = [topic for topic in known.topics if not topic.is_internal]
    leaders = {(topic.name, p.partition_index): p.leader_id for topic in ours for p in topic.partitions}
    assert Counter(leaders.values()) == {0: 3, 1: 3, 2: 3}
    for (topic, index), leader in leaders.items():
        for node in range(3):
            data = ProduceRequest.Topic.Partition(index=index, records=build_batch([Record(value=b"from %d" % node)]))
            request = ProduceRequest(
                acks=-1, timeout_ms=1000, topic_data=[ProduceRequest.Topic(name=topic, partition_data=[data])]
            )
            answer = harness.ask(request, 9, node=node).responses[0].partition_responses[0]
            assert answer.error_code == (E.NONE if node == leader else E.NOT_LEADER_OR_FOLLOWER)
    reader = harness.member("reader", topics=["t", "u"])
    harness.settle()
    assert sorted(reader.read()) == sorted((index, b"from %d" % leader) for (_, index), leader in leaders.items())


# --- old and new versions of offset requests ---------------------------------------------------------------------


def commit(harness: BrokerHarness, version: int, offset: int, **who: Any) -> E:
    kind = OffsetCommitRequest.Topic
    place = kind.Partition(partition_index=0, committed_offset=offset)
    topics = [kind(name="t", topic_id=harness.topic_id("t"), partitions=[place])]
    answer = harness.ask(OffsetCommitRequest(group_id="g", topics=topics, **who), version)
    return E(answer.topics[0].partitions[0].error_code)


def fetched(harness: BrokerHarness, version: int) -> tuple[int, E]:
    if version >= 8:
        kind = OffsetFetchRequest.Group
        topic = kind.Topic(name="t", topic_id=harness.topic_id("t"), partition_indexes=[0])
        request = OffsetFetchRequest(groups=[kind(group_id="g", topics=[topic])])
        place = harness.ask(request, version).groups[0].topics[0].partitions[0]
    else:
        topic = OffsetFetchRequest.Topic(name="t", partition_indexes=[0])
        place = harness.ask(OffsetFetchRequest(group_id="g", topics=[topic]), version).topics[0].partitions[0]
    return place.committed_offset, E(place.error_code)


def test_all_offset_versions_read_and_write_one_group() -> None:
    """v0 used ZooKeeper, and is refused like by a Kafka without ZooKeeper."""
    harness = AssignorHarness(release=RELEASES["all"])
    assert commit(harness, 0, 1) == E.UNSUPPORTED_VERSION
    for written in range(1, 11):  # without a member, each commit on a new connection
        assert commit(harness, written, written) == E.NONE
        assert {fetched(harness, read) for read in range(1, 11)} == {(written, E.NONE)}
    assert fetched(harness, 0)[1] == E.UNSUPPORTED_VERSION
    member = harness.member("m")
    harness.settle()
    for written in range(1, 11):  # the group has a member now, and every commit names it
        who = {"member_id": member.member_id, "generation_id_or_member_epoch": member.generation}
        assert commit(harness, written, 100 + written, **who) == E.NONE
        assert {fetched(harness, read) for read in range(1, 11)} == {(100 + written, E.NONE)}
        assert commit(harness, written, 7) == E.UNKNOWN_MEMBER_ID
        assert commit(harness, written, 7, **who | {"generation_id_or_member_epoch": 9}) == E.ILLEGAL_GENERATION


def test_group_keeps_a_member_that_its_client_forgot() -> None:
    """A client that sends the member id and generation continues as this member, on any connection and with any client
    id."""
    harness = AssignorHarness(topics={"t": 3})
    for name in "ab":
        harness.member(name)
    harness.settle()
    before = numbers(harness)
    known = [(member.member_id, member.generation) for member in harness.members]
    harness.members.clear()
    for member_id, generation in known:
        request = HeartbeatRequest(group_id="g", generation_id=generation, member_id=member_id)
        assert harness.ask(request, 4, client_id="somebody else").error_code == E.NONE
    results = {
        member.client_id: read_assignment(decode_stored(ConsumerProtocolAssignment, member.member_assignment)[0])
        for member in described(harness).members
    }
    assert {name: [index for _, index in share.partitions] for name, share in results.items()} == before


# --- causes of rebalances ----------------------------------------------------------------------------------------


@pytest.fixture
def three() -> AssignorHarness:
    """Return a harness with members a (leader), b and c in a Stable group, on six partitions."""
    harness = AssignorHarness(topics={"t": 6, "u": 2}, config={"group.initial.rebalance.delay.ms": 500})
    for name in "abc":
        harness.member(name)
    harness.live(3.0)
    assert [member.led for member in harness.members] == [True, False, False]
    assert numbers(harness) == {"a": [0, 1], "b": [2, 3], "c": [4, 5]}
    assert reasons(harness) == ["a joined"]
    return harness


def comes(harness: AssignorHarness) -> None:
    harness.member("d")


def leaves(harness: AssignorHarness) -> None:
    harness.members[1].leave()


def falls_silent(harness: AssignorHarness) -> None:
    harness.members[1].stop()


def grows(harness: AssignorHarness) -> None:
    grow(harness, "t", 9)


def subscribes_otherwise(harness: AssignorHarness) -> None:
    harness.members[1].subscribe("u")


@pytest.mark.parametrize(
    ("what", "why", "after"),
    [
        (grows, "a rejoined as leader", {"a": [0, 1, 2], "b": [3, 4, 5], "c": [6, 7, 8]}),
        (comes, "d joined", {"a": [0, 1], "b": [2, 3], "c": [4], "d": [5]}),
        (falls_silent, "session of b timed out", {"a": [0, 1, 2], "c": [3, 4, 5]}),
        (leaves, "b left", {"a": [0, 1, 2], "c": [3, 4, 5]}),
        (subscribes_otherwise, "b rejoined with other metadata", {"a": [0, 1, 2], "b": [0, 1], "c": [3, 4, 5]}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_events_that_start_a_rebalance(three: AssignorHarness, what, why: str, after: dict[str, list[int]]) -> None:
    generation = three.members[0].generation
    what(three)
    three.live(15.0)
    three.settle()
    assert reasons(three)[1:] == [why]
    assert {member.generation for member in three.members} == {generation + 1}
    assert numbers(three) == after


def test_silent_member_expires_at_the_end_of_its_session(three: AssignorHarness) -> None:
    falls_silent(three)
    three.live(9.0)
    assert reasons(three) == ["a joined"]
    three.live(2.0)
    assert reasons(three) == ["a joined", "session of b timed out"]


def test_unchanged_follower_that_rejoins_moves_nothing(three: AssignorHarness) -> None:
    follower = three.members[1]
    generation = follower.generation
    follower.subscribe("t")
    three.settle()
    assert reasons(three) == ["a joined"]
    assert follower.generation == generation


# --- joining and syncing -----------------------------------------------------------------------------------------


def test_only_the_leader_gets_the_member_list(three: AssignorHarness) -> None:
    leader, *followers = three.members
    assert sorted(leader.listed) == sorted(member.member_id for member in three.members)
    assert [follower.listed for follower in followers] == [[], []]


def test_the_leader_watches_topics_that_only_others_read() -> None:
    harness = AssignorHarness(topics={"t": 2, "u": 2}, config={"group.initial.rebalance.delay.ms": 500})
    for name, topic in (("a", "t"), ("b", "u")):
        harness.member(name, topics=[topic])
    harness.live(3.0)
    grow(harness, "u", 3)
    harness.members[1].step()
    assert reasons(harness) == ["a joined"]  # b has noticed the growth, but only the leader rejoins
    harness.settle()
    assert reasons(harness) == ["a joined", "a rejoined as leader"]
    assert numbers(harness) == {"a": [0, 1], "b": [0, 1, 2]}


def group_records(harness: BrokerHarness) -> list[GroupMetadataValue]:
    """Return the GroupMetadataValue records that were written for group g."""
    partition = harness.broker.cluster.partition(*harness.broker.offsets_partition("g"))
    results = []
    for batch in partition.log.batches():
        for record in batch.records():
            assert record.key[:2] == b"\0\2"  # key of a group, not of an offset
            assert decode_stored(GroupMetadataKey, record.key)[0].group == "g"
            results.append(decode_stored(GroupMetadataValue, record.value)[0])
    return results


def test_leaders_assignment_is_stored_and_returned() -> None:
    """Followers send SyncGroup without assignments and wait; the leader's SyncGroup has the assignments of all
    members."""
    harness = AssignorHarness(topics={"t": 6}, config={"group.initial.rebalance.delay.ms": 500})
    leader, *followers = [harness.member(name) for name in "abc"]
    for member in harness.members:
        assert [member.step() for _ in range(3)] == [True] * 3  # join without an id, receive an id, join with it
    harness.wait(2.0)
    for member in followers:
        member.step()
    assert [sync.body.assignments for sync in harness.router.requests.select("SyncGroup")] == [[], []]
    assert [member.step() for member in followers] == [False, False]
    assert [value.members for value in group_records(harness)] == [[]]  # a record for the new group, without members
    leader.step()
    harness.settle()
    sync = harness.router.requests.select("SyncGroup")[-1]
    assert sync.client_id == "a"
    planned = {each.member_id: each.assignment for each in sync.body.assignments}
    assert planned.keys() == {member.member_id for member in harness.members}
    _, written = group_records(harness)
    assert (written.generation, written.protocol, written.leader) == (1, "range", leader.member_id)
    assert {member.member_id: member.assignment for member in written.members} == planned
    assert numbers(harness) == {"a": [0, 1], "b": [2, 3], "c": [4, 5]}


def test_the_four_steps_of_an_election() -> None:
    """Members propose strategies; the coordinator elects a leader and a strategy, answers, and distributes the leader's
    assignment."""
    harness = AssignorHarness(topics={"t": 4}, config={"group.initial.rebalance.delay.ms": 500})
    (
        harness.member("C0", "range", "roundrobin"),
        harness.member("C1", "roundrobin", "range"),
        harness.member("C2", "roundrobin"),
    )
    harness.live(2.0)
    requested = [request for request in harness.router.requests.select() if request.api in ("JoinGroup", "SyncGroup")]
    proposed = [(r.client_id, [p.name for p in r.body.protocols]) for r in requested if r.api == "JoinGroup"]
    assert sorted(proposed) == [  # each twice: without a member id, and with it
        *[("C0", ["range", "roundrobin"])] * 2,
        *[("C1", ["roundrobin", "range"])] * 2,
        *[("C2", ["roundrobin"])] * 2,
    ]
    (elected,) = [event for event in harness.journal.events if event.event == "generation"]
    assert (elected.leader, elected.protocol) == (harness.members[0].member_id, "roundrobin")
    synced = [(r.client_id, len(r.body.assignments)) for r in requested if r.api == "SyncGroup"]
    assert sorted(synced) == [("C0", 3), ("C1", 0), ("C2", 0)]
    assert [r.api for r in requested] == ["JoinGroup"] * 6 + ["SyncGroup"] * 3
    assert [(len(member.listed), member.protocol) for member in harness.members] == [
        (3, "roundrobin"),
        (0, "roundrobin"),
        (0, "roundrobin"),
    ]
    assert numbers(harness) == {"C0": [0, 3], "C1": [1], "C2": [2]}


def test_cooperative_revokes_then_assigns_a_generation_later() -> None:
    """A retained partition always has an owner; a moved partition has no owner during one generation."""
    harness = AssignorHarness(topics={"t": 4}, config={"group.initial.rebalance.delay.ms": 500})
    old = harness.member("old", "cooperative-sticky")
    harness.live(2.0)
    harness.member("new", "cooperative-sticky")
    harness.settle()
    assigned = [event for event in harness.journal.events if event.event == "assign"]
    generations = [(event.generation, event.client, (event.assignment or {}).get("t", [])) for event in assigned]
    assert generations == [
        (1, "old", [0, 1, 2, 3]),
        (2, "old", [0, 1]),
        (2, "new", []),
        (3, "old", [0, 1]),
        (3, "new", [2, 3]),
    ]
    assert reasons(harness) == ["old joined", "new joined", "old rejoined with other metadata"]
    assert old.generation == 3


# --- choice of the strategy --------------------------------------------------------------------------------------

VOTES = [  # proposals of each member in order of preference, elected strategy
    pytest.param(["range"], "range", id="alone"),
    pytest.param(["range roundrobin", "range roundrobin", "roundrobin range"], "range", id="two to one"),
    pytest.param(["range roundrobin", "roundrobin range", "roundrobin range"], "roundrobin", id="one to two"),
    pytest.param(["range roundrobin", "roundrobin range"], "range", id="a tie"),
    pytest.param(["roundrobin range", "range roundrobin"], "range", id="a tie, the other way round"),
    pytest.param(["sticky range", "sticky range", "range"], "range", id="most want what not all can do"),
    pytest.param(["sticky roundrobin range", "range roundrobin", "roundrobin range"], "roundrobin", id="second choice"),
    pytest.param(["range", "roundrobin range", "roundrobin range"], "range", id="the only one that all can do"),
]


@pytest.mark.parametrize(("proposals", "elected"), VOTES)
def test_the_vote(proposals: list[str], elected: str) -> None:
    """Candidates are the strategies that all members support; each member votes for the first candidate in its list;
    the candidate with the most votes wins."""
    harness = AssignorHarness(topics={"t": 4}, config={"group.initial.rebalance.delay.ms": 500})
    for number, proposed in enumerate(proposals):
        harness.member(f"m{number}", *proposed.split())
    harness.live(2.0)
    harness.settle()
    assert [member.protocol for member in harness.members] == [elected] * len(proposals)
    assert [member.generation for member in harness.members] == [1] * len(proposals)


def test_member_without_the_groups_protocol_is_refused() -> None:
    harness = AssignorHarness(topics={"t": 4}, config={"group.initial.rebalance.delay.ms": 500})
    members = [harness.member("a", "range", "sticky"), harness.member("b", "roundrobin", "range")]
    harness.live(2.0)
    for carried in ("roundrobin", "sticky", "cooperative-sticky"):  # one member supports the first, one the second
        stranger = harness.member("c", carried)
        harness.live(2.0)
        assert [each[1:] for each in stranger.errors] == [("JoinGroup", "INCONSISTENT_GROUP_PROTOCOL")]
    assert [(member.protocol, member.generation) for member in members] == [("range", 1)] * 2
    assert reasons(harness) == ["a joined"]
    harness.settle()


def test_rolling_change_of_strategy_needs_no_restart() -> None:
    """To change from range to roundrobin, members first add the new strategy one by one, and then remove the old
    one."""
    harness = AssignorHarness(topics={"t": 3, "u": 3}, config={"group.initial.rebalance.delay.ms": 500})
    broker = harness.broker
    for name in ("m0", "m1"):
        harness.member(name, "range", topics=["t", "u"])
    harness.live(2.0)
    seen = [{member.protocol for member in harness.members}]
    hasty = harness.member("hasty", "roundrobin", topics=["t", "u"])
    harness.live(2.0)
    assert [each[1:] for each in hasty.errors] == [("JoinGroup", "INCONSISTENT_GROUP_PROTOCOL")]
    for carries in (["roundrobin", "range"], ["roundrobin"]):
        for name in ("m0", "m1"):
            old = next(member for member in harness.members if member.name == name)
            old.leave()
            harness.live(2.0)
            harness.member(name, *carries, topics=["t", "u"])
            harness.live(2.0)
            harness.settle()
            seen.append({member.protocol for member in harness.members})
    assert seen == [{"range"}, {"range"}, {"roundrobin"}, {"roundrobin"}, {"roundrobin"}]
    assert {name: sorted(share) for name, share in harness.shares().items()} == {
        "m0": [("t", 0), ("t", 2), ("u", 1)],
        "m1": [("t", 1), ("u", 0), ("u", 2)],
    }
    assert harness.broker is broker
