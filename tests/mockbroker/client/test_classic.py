"""A member of a classic group: joining, leading, what the user is told in which order, and what is done about nonsense."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from tools.nodes import Nodes

from kwire.assignors import (
    Assignment,
    Assignor,
    AssignorError,
    Subscription,
    assignor,
    read_assignment,
    read_subscription,
    write_subscription,
)
from kwire.blobs import decode_stored, encode_stored
from kwire.blobs.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kwire.errorcodes import ErrorCode as E
from kwire.messages import APIS
from kwire.messages.join_group import JoinGroupResponse
from mockbroker.client.call import newest
from mockbroker.client.classic.status import ClassicState
from mockbroker.client.errors import (
    BrokerError,
    CommitFailed,
    ConsumerError,
    InconsistentGroupProtocol,
    RebalanceInProgress,
    UnknownAssignor,
    UnsupportedVersion,
)

UNJOINED, PREPARING, COMPLETING, STABLE = ClassicState
EAGER, COOPERATIVE = {"assignors": ["range"]}, {"assignors": ["cooperative-sticky"]}


def subscribed(what: Iterable[str] | re.Pattern[str] = ("t",), /, **settings: Any) -> Nodes:
    nodes = Nodes(**settings)
    nodes.engine.subscribe(what if isinstance(what, re.Pattern) else list(what))
    return nodes


def subscription(asked: Any, number: int = 0) -> Subscription:
    """As the JoinGroup has it."""
    blob, _ = decode_stored(ConsumerProtocolSubscription, asked.protocols[number].metadata)
    return read_subscription(blob)


def shares(asked: Any) -> dict[str, list[str]]:
    """As the leader's SyncGroup has them."""
    found = {}
    for one in asked.assignments:
        blob, _ = decode_stored(ConsumerProtocolAssignment, one.assignment)
        found[one.member_id] = [f"{topic}{number}" for topic, number in read_assignment(blob).partitions]
    return found


# --- the states, and every way between them -----------------------------------------------------------------------


def test_from_unjoined_to_stable() -> None:
    nodes = Nodes()
    assert nodes.member.state is UNJOINED
    nodes.engine.subscribe(["t"])
    nodes.settle()
    assert (nodes.member.state, nodes.count("JoinGroup")) == (UNJOINED, 0), "only a poll joins"
    nodes.poll()
    assert nodes.member.state is PREPARING
    nodes.refuse("JoinGroup", E.MEMBER_ID_REQUIRED, member_id="me")
    assert (nodes.member.state, nodes.one("JoinGroup").body.member_id) == (PREPARING, "me")
    nodes.joined(5)
    assert nodes.member.state is COMPLETING
    nodes.synced([("t", 1)])
    assert (nodes.member.state, nodes.assigned, nodes.told) == (STABLE, ["t1"], [("assigned", ["t1"])])
    assert nodes.now == 0.0


def because_of_27(nodes: Nodes) -> None:
    nodes.until("Heartbeat")
    nodes.beat(E.REBALANCE_IN_PROGRESS)


def because_of_a_subscription(nodes: Nodes) -> None:
    nodes.engine.subscribe(["t", "u"])
    nodes.poll()


def because_of_the_user(nodes: Nodes) -> None:
    nodes.member.rejoin("so I wish")
    nodes.poll()


@pytest.mark.parametrize("why", [because_of_27, because_of_a_subscription, because_of_the_user])
def test_from_stable_to_preparing(why) -> None:
    nodes = subscribed(topics={"t": 3, "u": 1})
    nodes.stable(generation=5)
    why(nodes)
    assert (nodes.member.state, nodes.one("JoinGroup").body.member_id) == (PREPARING, "me")
    nodes.joined(6)
    nodes.synced([("t", 2)])
    assert (nodes.member.state, nodes.member.generation, nodes.assigned) == (STABLE, 6, ["t2"])


@pytest.mark.parametrize(("code", "member_id"), [(E.UNKNOWN_MEMBER_ID, ""), (E.ILLEGAL_GENERATION, "me")])
def test_from_stable_to_unjoined_by_an_error(code: E, member_id: str) -> None:
    nodes = subscribed()
    nodes.stable(generation=5)
    nodes.until("Heartbeat")
    nodes.beat(code, polling=False)
    assert (nodes.member.state, nodes.member.generation, nodes.member.member_id) == (UNJOINED, -1, member_id)
    nodes.poll()
    assert nodes.told[1:] == [("lost", ["t0"])]
    assert nodes.one("JoinGroup").body.member_id == member_id


@pytest.mark.parametrize("state", [UNJOINED, PREPARING, COMPLETING, STABLE])
def test_from_anywhere_to_unjoined_by_leaving(state: ClassicState) -> None:
    nodes = subscribed()
    if state is not UNJOINED:
        nodes.poll()
    if state in (COMPLETING, STABLE):
        nodes.joined()
    if state is STABLE:
        nodes.synced([("t", 0)])
    assert nodes.member.state is state
    nodes.engine.unsubscribe()
    nodes.settle()
    assert nodes.member.state is UNJOINED
    assert nodes.count("LeaveGroup") == (state in (COMPLETING, STABLE)), "who has no id cannot leave"
    nodes.wait(20)
    assert (nodes.count("Heartbeat"), nodes.count("JoinGroup")) == (0, int(state is not UNJOINED))


def test_late_answers_to_who_has_left_are_ignored() -> None:
    nodes = subscribed()
    nodes.poll()
    nodes.engine.unsubscribe()
    nodes.joined(5, polling=False)
    assert (nodes.member.state, nodes.member.generation, nodes.count("SyncGroup")) == (UNJOINED, -1, 0)
    nodes.engine.subscribe(["t"])
    nodes.poll()
    assert nodes.one("JoinGroup").body.member_id == ""


def test_join_response_in_the_wrong_state_is_retried() -> None:
    nodes = subscribed()
    nodes.stable(generation=5)
    beat = nodes.until("Heartbeat")
    nodes.member.rejoin("a test")
    nodes.poll()
    nodes.refuse("Heartbeat", E.UNKNOWN_MEMBER_ID)
    assert (beat.done, nodes.member.state) == (True, UNJOINED)
    nodes.joined(6)
    assert (nodes.member.generation, nodes.count("SyncGroup")) == (-1, 1)
    nodes.until("JoinGroup")
    assert nodes.now == pytest.approx(3.1), "after the backoff"
    assert (nodes.last("JoinGroup").member_id, nodes.last("JoinGroup").reason) == (
        "",
        "Heartbeat was answered UNKNOWN_MEMBER_ID",
    )


def test_sync_response_of_an_old_generation_is_ignored() -> None:
    nodes = subscribed()
    nodes.poll()
    nodes.joined(5)
    nodes.member.status.reset(E.ILLEGAL_GENERATION, "a commit")
    nodes.synced([("t", 0)])
    assert (nodes.assigned, nodes.told) == ([], [])
    assert nodes.one("JoinGroup").body.member_id == "me"


def test_generation_that_ends_before_a_poll_is_never_assigned() -> None:
    nodes = subscribed()
    nodes.poll()
    nodes.joined(5, polling=False)
    nodes.synced([("t", 0)], polling=False)
    assert (nodes.member.state, nodes.assigned) == (STABLE, []), "only a poll takes it up"
    nodes.until("Heartbeat", polling=False)
    nodes.beat(E.UNKNOWN_MEMBER_ID, polling=False)
    nodes.poll()
    assert (nodes.assigned, nodes.told, nodes.one("JoinGroup").body.member_id) == ([], [], "")


@pytest.mark.parametrize(("code", "member_id"), [(E.UNKNOWN_MEMBER_ID, ""), (E.ILLEGAL_GENERATION, "me")])
def test_who_is_out_when_it_syncs_does_not_beat(code: E, member_id: str) -> None:
    nodes = subscribed(assignors=["cooperative-sticky"])
    nodes.stable(generation=5)
    because_of_27(nodes)
    nodes.joined(6)
    beats = nodes.count("Heartbeat")
    nodes.refuse("SyncGroup", code, polling=False)
    nodes.wait(10)
    assert (nodes.member.state, nodes.count("Heartbeat")) == (UNJOINED, beats), "it waits to tell the user"
    nodes.poll()
    assert (nodes.told[1:], nodes.one("JoinGroup").body.member_id) == ([("lost", ["t0"])], member_id)


def test_rebalance_without_polls_waits_only_for_the_listener() -> None:
    nodes = subscribed(**EAGER)
    nodes.stable(generation=5)
    nodes.until("Heartbeat")
    nodes.beat(E.REBALANCE_IN_PROGRESS, polling=False)
    nodes.wait(1)
    assert (nodes.told[1:], nodes.count("JoinGroup")) == ([], 1)
    nodes.poll()
    nodes.joined(6, polling=False)
    nodes.synced([("t", 1)], polling=False)
    assert nodes.told[1:] == [("revoked", ["t0"])]
    nodes.poll()
    assert nodes.told[2:] == [("assigned", ["t1"])]


# --- what JoinGroup and SyncGroup say -----------------------------------------------------------------------------


def test_the_fields_of_a_join() -> None:
    nodes = subscribed(
        ["u", "t"], session_timeout=20.0, max_poll_interval=200.0, client_rack="r1", topics={"t": 1, "u": 1}
    )
    nodes.poll()
    asked = nodes.one("JoinGroup")
    sent = asked.body
    assert (sent.group_id, sent.session_timeout_ms, sent.rebalance_timeout_ms) == ("g", 20_000, 200_000)
    assert (sent.member_id, sent.group_instance_id, sent.protocol_type) == ("", None, "consumer")
    assert [protocol.name for protocol in sent.protocols] == ["range", "cooperative-sticky"], "in order of preference"
    told = subscription(sent)
    assert (told.topics, told.owned, told.generation, told.rack_id) == (["t", "u"], [], -1, "r1")
    assert sent.reason


def test_a_join_of_version_0_has_no_rebalance_timeout() -> None:
    nodes = subscribed(served={"JoinGroup": (0, 0)})
    nodes.poll()
    asked = nodes.one("JoinGroup")
    assert (asked.version, asked.body.rebalance_timeout_ms) == (0, -1)


@pytest.mark.parametrize(
    ("request_timeout", "rebalance", "takes"),
    [(30.0, 300.0, 305.0), (30.0, 10.0, 30.0), (400.0, 300.0, 400.0)],
)
def test_a_join_may_take_as_long_as_the_rebalance_and_5_seconds(request_timeout, rebalance, takes) -> None:
    nodes = subscribed(request_timeout=request_timeout, max_poll_interval=rebalance)
    nodes.poll()
    asked = nodes.one("JoinGroup")
    nodes.wait(takes - 0.01)
    assert nodes.one("JoinGroup") is asked
    nodes.wait(0.02)
    assert asked.link.state.value == "closed"
    assert nodes.until("JoinGroup", within=1.0) is not asked


def test_metadata_is_written_anew_for_each_join() -> None:
    nodes = subscribed(**COOPERATIVE)
    nodes.stable([("t", 0), ("t", 2)], generation=5)
    nodes.member.rejoin("a test")
    nodes.poll()
    told = subscription(nodes.one("JoinGroup").body)
    assert (told.owned, told.generation) == ([("t", 0), ("t", 2)], 5)


def test_a_static_member() -> None:
    nodes = subscribed(group_instance_id="one")
    nodes.poll()
    assert nodes.one("JoinGroup").version >= 5
    assert nodes.one("JoinGroup").body.group_instance_id == "one"
    nodes.joined()
    assert nodes.one("SyncGroup").body.group_instance_id == "one"
    nodes.synced([("t", 0)])
    nodes.commit({("t", 0): 8})
    asked = nodes.one("OffsetCommit")
    assert (asked.body.group_instance_id, asked.version >= 7) == ("one", True)
    nodes.committed()
    nodes.engine.unsubscribe()
    nodes.wait(60)
    assert nodes.count("LeaveGroup") == 0, "it comes back"


def test_a_static_member_at_a_broker_without_them() -> None:
    nodes = subscribed(group_instance_id="one", served={"JoinGroup": (0, 4)})
    with pytest.raises(UnsupportedVersion, match=r"JoinGroup v5-9 is needed, node1:9001 has 0-4"):
        nodes.poll()


@pytest.mark.parametrize("version", [2, 5])
def test_leaving(version: int) -> None:
    nodes = subscribed(served={"LeaveGroup": (0, version)})
    nodes.stable()
    nodes.engine.unsubscribe()
    nodes.settle()
    asked = nodes.one("LeaveGroup").body
    if version < 3:
        assert (asked.group_id, asked.member_id) == ("g", "me")
    else:
        assert [(one.member_id, one.group_instance_id) for one in asked.members] == [("me", None)]
        assert "unsubscribed" in asked.members[0].reason
    assert nodes.engine.leaving
    nodes.refuse("LeaveGroup", E.UNKNOWN_MEMBER_ID, polling=False)
    assert not nodes.engine.leaving, "whatever it is answered"


def test_a_follower_syncs_with_nothing() -> None:
    nodes = subscribed()
    nodes.poll()
    nodes.joined(5)
    sent = nodes.one("SyncGroup").body
    assert (sent.group_id, sent.generation_id, sent.member_id, sent.assignments) == ("g", 5, "me", [])
    assert (sent.protocol_type, sent.protocol_name) == ("consumer", "range")


# --- the user's listener -------------------------------------------------------------------------------------------


def test_eager_gives_up_everything_before_it_joins() -> None:
    nodes = subscribed(**EAGER)
    nodes.stable([("t", 0), ("t", 1)])
    joins = []
    nodes.hears = lambda what: joins.append((what, nodes.count("JoinGroup")))
    nodes.member.rejoin("a test")
    nodes.poll()
    assert (nodes.told[1:], joins) == ([("revoked", ["t0", "t1"])], [("revoked", 1)])
    assert subscription(nodes.one("JoinGroup").body).owned == []
    assert nodes.assigned == []
    nodes.joined(2)
    nodes.synced([("t", 1), ("t", 2)])
    assert nodes.told[2:] == [("assigned", ["t1", "t2"])]


def test_cooperative_keeps_partitions_and_rejoins_after_revoking() -> None:
    nodes = subscribed(**COOPERATIVE)
    nodes.stable([("t", 0), ("t", 1)])
    nodes.member.rejoin("a test")
    nodes.poll()
    assert (nodes.told[1:], nodes.assigned) == ([], ["t0", "t1"]), "nothing is given up beforehand"
    nodes.joined(2)
    nodes.synced([("t", 1), ("t", 2)])
    assert nodes.told[1:] == [("revoked", ["t0"]), ("assigned", ["t2"])]
    assert nodes.assigned == ["t1", "t2"]
    assert subscription(nodes.one("JoinGroup").body).owned == [("t", 1), ("t", 2)], "at once"
    nodes.joined(3)
    nodes.synced([("t", 1), ("t", 2)])
    assert nodes.told[3:] == [("assigned", [])]
    nodes.wait(2)
    assert nodes.count("JoinGroup") == 3, "and not again when nothing was taken"


def test_cooperative_revokes_unsubscribed_topics_before_it_joins() -> None:
    nodes = subscribed(["t", "u"], topics={"t": 2, "u": 2}, **COOPERATIVE)
    nodes.stable([("t", 0), ("u", 1)])
    nodes.engine.subscribe(["t"])
    nodes.poll()
    assert (nodes.told[1:], nodes.assigned) == ([("revoked", ["u1"])], ["t0"])
    assert subscription(nodes.one("JoinGroup").body).owned == [("t", 0)]


def test_offsets_are_committed_before_partitions_are_given_up() -> None:
    nodes = subscribed(enable_auto_commit=True, **EAGER)
    nodes.stable(generation=5)
    nodes.member.rejoin("a test")
    nodes.poll()
    sent = nodes.one("OffsetCommit").body
    assert (sent.generation_id_or_member_epoch, sent.topics[0].partitions[0].committed_offset) == (5, 7)
    assert (nodes.told[1:], nodes.count("JoinGroup")) == ([], 1)
    nodes.committed(E.COORDINATOR_LOAD_IN_PROGRESS)
    nodes.until("OffsetCommit")
    assert (nodes.told[1:], nodes.count("JoinGroup")) == ([], 1), "tried again until it is stored"
    nodes.committed()
    assert (nodes.told[1:], nodes.count("JoinGroup")) == ([("revoked", ["t0"])], 2)


def test_a_commit_that_is_refused_does_not_hold_up_the_rebalance() -> None:
    nodes = subscribed(enable_auto_commit=True, **EAGER)
    nodes.stable()
    nodes.member.rejoin("a test")
    nodes.poll()
    nodes.committed(E.TOPIC_AUTHORIZATION_FAILED)
    assert (nodes.told[1:], nodes.count("JoinGroup")) == ([("revoked", ["t0"])], 2)


def test_slow_commit_delays_a_rebalance_at_most_its_timeout() -> None:
    nodes = subscribed(enable_auto_commit=True, max_poll_interval=10.0, **EAGER)
    nodes.stable()
    nodes.member.rejoin("a test")
    nodes.poll()
    nodes.wait(9.9, polling=True)
    assert nodes.told[1:] == []
    nodes.wait(0.2, polling=True)
    assert nodes.told[1:] == [("revoked", ["t0"])]


@pytest.mark.parametrize("kind", [EAGER, COOPERATIVE])
def test_what_is_lost_is_told_so(kind) -> None:
    nodes = subscribed(**kind)
    nodes.stable()
    nodes.until("Heartbeat")
    nodes.beat(E.UNKNOWN_MEMBER_ID)
    assert (nodes.told[1:], nodes.assigned) == ([("lost", ["t0"])], [])
    assert subscription(nodes.one("JoinGroup").body).owned == []


def test_what_is_lost_in_the_middle_of_giving_up_is_told_so() -> None:
    nodes = subscribed(["t", "u"], topics={"t": 2, "u": 2}, **COOPERATIVE)
    nodes.stable([("t", 0), ("u", 1)])
    nodes.engine.subscribe(["t"])
    nodes.hears = lambda what: what == "revoked" and nodes.member.status.reset(E.UNKNOWN_MEMBER_ID, "Heartbeat")
    nodes.poll()
    assert nodes.told[1:] == [("revoked", ["u1"]), ("lost", ["t0"])]
    assert nodes.assigned == []


@pytest.mark.parametrize(
    ("kind", "what"), [(EAGER, "revoked"), (EAGER, "assigned"), (COOPERATIVE, "revoked"), (EAGER, "lost")]
)
def test_listener_error_is_raised_by_poll_rebalance_continues(kind, what: str) -> None:
    nodes = subscribed(**kind)
    nodes.stable()
    nodes.raises[what] = raised = OSError("mine")

    def rebalance() -> None:
        if what == "lost":
            nodes.until("Heartbeat")
            nodes.beat(E.UNKNOWN_MEMBER_ID)
        else:
            nodes.member.rejoin("a test")
        nodes.poll()
        nodes.joined(2)
        nodes.synced([("t", 1)])

    with pytest.raises(OSError, match="mine") as caught:
        rebalance()
    assert caught.value is raised
    told = len(nodes.told)
    nodes.poll()
    if nodes.open("JoinGroup") and kind is EAGER:
        nodes.joined(3)
        nodes.synced([("t", 1)])
    assert nodes.assigned == ["t1"]
    assert [heard for heard, _ in nodes.told[told:]].count(what) == 0, "it is told once"
    assert nodes.member.state is (STABLE if kind is EAGER else PREPARING)


def test_the_first_of_two_errors_is_raised() -> None:
    nodes = subscribed(**COOPERATIVE)
    nodes.stable()
    nodes.member.rejoin("a test")
    nodes.poll()
    nodes.joined(2)
    nodes.raises = {"revoked": OSError("first"), "assigned": OSError("second")}
    with pytest.raises(OSError, match="first"):
        nodes.synced([("t", 1)])
    assert (nodes.told[1:], nodes.assigned) == ([("revoked", ["t0"]), ("assigned", ["t1"])], ["t1"])


# --- committing around a rebalance ---------------------------------------------------------------------------------


def test_who_is_in_between_two_generations_commits_nothing() -> None:
    nodes = subscribed(**COOPERATIVE)
    assert isinstance(nodes.commit({("t", 0): 8}).error, CommitFailed), "not a member yet"
    nodes.stable()
    nodes.member.rejoin("a test")
    nodes.poll()
    assert isinstance(nodes.commit({("t", 0): 8}).error, RebalanceInProgress)
    nodes.joined(2, polling=False)
    assert isinstance(nodes.commit({("t", 0): 8}).error, RebalanceInProgress)
    nodes.synced([("t", 1)], polling=False)
    assert isinstance(nodes.commit({("t", 0): 8}).error, RebalanceInProgress), "t0 may be another's by now"
    assert nodes.count("OffsetCommit") == 0


@pytest.mark.parametrize("kind", [EAGER, COOPERATIVE])
def test_a_listener_commits_what_is_being_revoked(kind) -> None:
    nodes = subscribed(**kind)
    nodes.stable()
    commits = []
    nodes.hears = lambda what: what == "revoked" and commits.append(nodes.commit({("t", 0): 8}))
    nodes.member.rejoin("a test")
    nodes.poll()
    if kind is COOPERATIVE:
        nodes.joined(2)
        nodes.synced([("t", 1)])
    assert [commit.error for commit in commits] == [None]
    assert nodes.one("OffsetCommit").body.generation_id_or_member_epoch == (1 if kind is EAGER else 2)


# --- leading -------------------------------------------------------------------------------------------------------


def test_the_leader_assigns_for_all_and_watches_all_topics() -> None:
    nodes = subscribed(topics={"t": 3, "u": 2, "w": 1})
    nodes.poll()
    nodes.joined(members={"me": ["t"], "you": ["t", "u"]})
    assert shares(nodes.one("SyncGroup").body) == {"me": ["t0", "t1"], "you": ["t2", "u0", "u1"]}
    asked = [topic.name for topic in nodes.last("Metadata").topics]
    assert asked == ["t", "u"], "what only others read too"


def test_the_leader_takes_up_its_own_share_by_the_answer() -> None:
    nodes = subscribed()
    nodes.poll()
    nodes.joined(members={"me": ["t"]})
    nodes.synced([("t", 2)])
    assert nodes.assigned == ["t2"]
    assert nodes.member.leading


def grown(nodes: Nodes) -> None:
    """The topic gets a partition more, and everybody asks for metadata."""
    nodes.topics["u"] += 1
    nodes.engine.metadata.refresh()
    nodes.settle(polling=True)


def test_only_the_leader_joins_again_when_a_topic_grows() -> None:
    leader, follower = subscribed(topics={"t": 3, "u": 1}), subscribed(["u"], topics={"t": 3, "u": 1})
    leader.stable(members={"me": ["t"], "you": ["u"]})
    follower.stable([("u", 0)])
    for nodes in (leader, follower):
        grown(nodes)
    assert (leader.count("JoinGroup"), follower.count("JoinGroup")) == (2, 1)
    assert "partitions of the group's topics" in leader.last("JoinGroup").reason


def test_a_leader_that_follows_now_no_longer_watches() -> None:
    nodes = subscribed(topics={"t": 3, "u": 1})
    nodes.stable(members={"me": ["t"], "you": ["u"]})
    because_of_27(nodes)
    nodes.joined(2)
    nodes.synced([("t", 0)])
    grown(nodes)
    nodes.poll()
    assert nodes.count("JoinGroup") == 2


def test_replicas_in_other_racks_are_a_change_too() -> None:
    nodes = subscribed()
    nodes.stable(members={"me": ["t"]})
    nodes.racks = {1: "r1"}
    nodes.engine.metadata.refresh()
    nodes.settle(polling=True)
    assert nodes.count("JoinGroup") == 2


def lookup_under_way(nodes: Nodes) -> None:
    """The leader waits behind a question of its own, and what it wanted to ask next is no longer wanted."""
    del nodes.answers["Metadata"]
    nodes.engine.metadata.refresh()
    nodes.poll()
    nodes.joined(members={"me": ["t"], "other": ["u"]})
    nodes.engine.subscribe(["t", "v"])
    nodes.poll()
    nodes.answer("Metadata", nodes.metadata(nodes.one("Metadata")))


def test_leader_fetches_group_topics_after_a_new_subscription() -> None:
    nodes = subscribed(topics={"t": 3, "u": 1, "v": 1})
    nodes.poll()
    lookup_under_way(nodes)
    nodes.answer("Metadata", nodes.metadata(nodes.one("Metadata")))
    assert [one.member_id for one in nodes.one("SyncGroup").body.assignments] == ["me", "other"]


def test_leader_evicted_during_its_metadata_request_rejoins() -> None:
    nodes = subscribed(topics={"t": 3, "u": 1, "v": 1})
    nodes.poll()
    lookup_under_way(nodes)
    nodes.until("Heartbeat", polling=True)
    nodes.beat(E.UNKNOWN_MEMBER_ID)
    assert nodes.one("JoinGroup").body.member_id == ""


def test_partitions_added_while_assigning_make_the_leader_rejoin() -> None:
    nodes = subscribed()
    nodes.poll()
    nodes.joined(members={"me": ["t"]})
    nodes.topics["t"] = 4
    nodes.engine.metadata.refresh()
    nodes.settle(polling=True)
    assert nodes.count("JoinGroup") == 1
    nodes.synced([("t", 0)])
    assert nodes.count("JoinGroup") == 2


def test_returning_static_leader_skips_assignment_but_watches() -> None:
    nodes = subscribed(group_instance_id="one")
    nodes.poll()
    nodes.joined(members={"me": ["t"]}, skip_assignment=True)
    assert nodes.one("SyncGroup").body.assignments == []
    nodes.synced([("t", 0)])
    nodes.topics["t"] = 4
    nodes.engine.metadata.refresh()
    nodes.settle(polling=True)
    assert nodes.count("JoinGroup") == 2


class Nonsense(Assignor):
    """Answers what it was made with."""

    name = "nonsense"

    def __init__(self, answer: Mapping[str, list[tuple[str, int]]]) -> None:
        self.answer = answer

    def assign(self, topics: Any, members: Any) -> dict[Any, Any]:
        return {member_id: Assignment(partitions) for member_id, partitions in self.answer.items()}


NONSENSE = [
    ({"who": [("t", 0)]}, "'who' is given partitions and is no member of the group"),
    ({"me": [("t", 9)]}, "'me' is given t-9, which is not in the metadata"),
    ({"me": [("u", 0)]}, "'me' is given u-0 and does not subscribe to u"),
    ({"me": [("t", 0)], "you": [("t", 0)]}, "'you' is given t-0, which 'me' has already"),
    ({"me": [("t", 0), ("t", 0)]}, "'me' is given t-0 twice"),
]


@pytest.mark.parametrize(("answer", "text"), NONSENSE, ids=[text for _, text in NONSENSE])
def test_invalid_assignment_error_names_member_and_partition(answer, text: str) -> None:
    nodes = subscribed(topics={"t": 3, "u": 1}, assignors=[Nonsense(answer)])
    nodes.poll()
    with pytest.raises(AssignorError, match=re.escape(text)):
        nodes.joined(members={"me": ["t"], "you": ["t", "u"]})
    assert nodes.count("SyncGroup") == 0, "nobody gets it"
    nodes.poll()
    assert nodes.count("JoinGroup") == 2, "the next poll tries again"


def test_invalid_assignment_outside_a_poll_is_raised_by_the_next() -> None:
    nodes = subscribed(assignors=[Nonsense({"who": []})])
    nodes.poll()
    nodes.joined(members={"me": ["t"]}, polling=False)
    with pytest.raises(AssignorError, match="no member"):
        nodes.poll()


def test_an_assignor_that_is_not_known_lists_those_that_are() -> None:
    with pytest.raises(
        AssignorError, match="there is no assignor 'best', only range, roundrobin, sticky, cooperative-sticky"
    ):
        Nodes(assignors=["best"])


@pytest.mark.parametrize("leads", [True, False])
def test_a_group_that_chose_what_this_member_does_not_have(leads: bool) -> None:
    nodes = subscribed()
    nodes.poll()

    def on() -> None:
        nodes.joined(members={"me": ["t"]} if leads else None, protocol_name="best")
        nodes.synced([("t", 0)])

    with pytest.raises(UnknownAssignor, match="the group chose 'best', this member has range, cooperative-sticky"):
        on()
    nodes.poll()
    assert nodes.count("JoinGroup") == 2


def test_the_assignor_of_each_member_hears_what_it_got() -> None:
    heard = []

    class Hears(Nonsense):
        def on_assignment(self, assignment: Any, generation: int) -> None:
            heard.append((list(assignment.partitions), generation))
            raise OSError("mine")

    nodes = subscribed(assignors=[Hears({})])
    nodes.poll()
    nodes.joined(5)
    with pytest.raises(OSError, match="mine"):
        nodes.synced([("t", 1)])
    assert heard == [([("t", 1)], 5)]
    assert (nodes.assigned, nodes.told) == (["t1"], [("assigned", ["t1"])]), "what it raises takes nothing away"


def test_a_subscription_that_cannot_be_read_names_the_member() -> None:
    nodes = subscribed()
    nodes.poll()
    bad = JoinGroupResponse.Member(member_id="bad", metadata=b"\0\1\0\0\0\7")
    answer = JoinGroupResponse(
        generation_id=1, protocol_type="consumer", protocol_name="range", leader="me", member_id="me", members=[bad]
    )
    with pytest.raises(ConsumerError, match="the subscription of 'bad' cannot be read"):
        nodes.answer("JoinGroup", answer)


# --- assignments -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [b"", b"\0\3\0\0\0\0\xff\xff\xff\xff"])
def test_nothing_is_an_assignment_too(share: bytes) -> None:
    nodes = subscribed()
    nodes.poll()
    nodes.joined()
    nodes.synced(share)
    assert (nodes.member.state, nodes.told) == (STABLE, [("assigned", [])])


@pytest.mark.parametrize("share", [b"\0", b"\0\3\0\0\0\7"])
def test_an_assignment_that_is_none_is_raised_and_tried_again(share: bytes) -> None:
    nodes = subscribed()
    nodes.poll()
    for generation in (1, 2):
        nodes.joined(generation)
        with pytest.raises(ConsumerError, match=r"invalid assignment \(1 bytes\)|cannot be read"):
            nodes.synced(share)
        nodes.poll()
    assert (nodes.told, nodes.count("JoinGroup")) == ([("revoked", [])] * 2, 3)


def test_assignment_of_an_unsubscribed_topic_makes_it_rejoin() -> None:
    nodes = subscribed(topics={"t": 3, "u": 1}, **COOPERATIVE)
    nodes.poll()
    nodes.joined()
    nodes.synced([("t", 0), ("u", 0)])
    assert (nodes.assigned, nodes.told) == ([], [])
    assert "not subscribed to: u" in nodes.one("JoinGroup").body.reason


@pytest.mark.parametrize("field", [{"protocol_type": "connect"}, {"protocol_name": "other"}])
def test_a_sync_answer_of_another_protocol(field) -> None:
    nodes = subscribed()
    nodes.poll()
    nodes.joined()
    with pytest.raises(InconsistentGroupProtocol, match="SyncGroup answers"):
        nodes.synced([("t", 0)], **field)
    assert nodes.assigned == []


def test_a_join_answer_of_another_protocol_type() -> None:
    nodes = subscribed()
    nodes.poll()
    with pytest.raises(InconsistentGroupProtocol, match="the group is of type 'connect'"):
        nodes.joined(protocol_type="connect")
    assert nodes.count("SyncGroup") == 0


def test_a_broker_without_groups() -> None:
    nodes = subscribed(served={"JoinGroup": (0, -1)})
    with pytest.raises(UnsupportedVersion, match="JoinGroup v0-9 is needed, node1:9001 does not have it"):
        nodes.poll()


# --- patterns --------------------------------------------------------------------------------------------------------

T = re.compile("t.*")


def test_a_pattern_joins_when_it_is_known_what_it_matches() -> None:
    nodes = subscribed(T, topics={"t1": 1, "t2": 1, "a-t1": 1, "__t": 1})
    del nodes.answers["Metadata"]
    nodes.poll()
    assert nodes.one("Metadata").body.topics is None, "all topics are asked for"
    nodes.wait(1)
    assert nodes.count("JoinGroup") == 0
    nodes.answer("Metadata", nodes.metadata(nodes.one("Metadata")))
    nodes.poll()
    assert subscription(nodes.one("JoinGroup").body).topics == ["t1", "t2"], "whole names, no internal ones"
    nodes.joined()
    nodes.synced([("t1", 0)])
    assert (nodes.assigned, nodes.count("JoinGroup")) == (["t1" + "0"], 1)


def test_topics_in_place_of_a_pattern_that_is_still_looked_for() -> None:
    nodes = Nodes(topics={"t1": 1, "u": 1})
    del nodes.answers["Metadata"]
    nodes.settle()
    nodes.engine.subscribe(T)
    nodes.poll()
    nodes.engine.subscribe(["u"])
    nodes.answer("Metadata", nodes.metadata(nodes.one("Metadata")))
    nodes.answers["Metadata"] = nodes.metadata
    nodes.wait(1.0, polling=True)
    assert subscription(nodes.one("JoinGroup").body).topics == ["u"]


def test_internal_topics_do_not_match_by_accident() -> None:
    nodes = subscribed(re.compile(".*"), topics={"t": 1, "__consumer_offsets": 50})
    nodes.poll()
    assert subscription(nodes.one("JoinGroup").body).topics == ["t"]


def test_a_topic_that_appears_makes_it_join_again() -> None:
    nodes = subscribed(T, topics={"t1": 1}, metadata_max_age=20.0)
    nodes.stable([("t1", 0)])
    nodes.topics["t2"] = 1
    asked = nodes.until("JoinGroup", within=21.0)
    assert subscription(asked.body).topics == ["t1", "t2"]
    assert asked.at <= 20.0


def test_assigned_topics_unknown_here_are_kept_if_they_match() -> None:
    nodes = subscribed(T, topics={"t1": 1})
    nodes.poll()
    nodes.joined()
    nodes.topics["t2"] = 1
    nodes.synced([("t1", 0), ("t2", 0)])
    assert (nodes.assigned, nodes.count("JoinGroup")) == (["t10", "t20"], 1)


def test_fresh_metadata_before_each_join_of_a_pattern() -> None:
    nodes = subscribed(T, topics={"t1": 1})
    nodes.stable([("t1", 0)])
    nodes.topics["t2"] = 1
    because_of_27(nodes)
    assert subscription(nodes.one("JoinGroup").body).topics == ["t1", "t2"]


def test_subscription_lists_topics_in_the_order_of_java() -> None:
    blob = encode_stored(write_subscription(Subscription(["u", "t"])), 3)
    nodes = subscribed(["u", "t"], topics={"t": 1, "u": 1}, assignors=[assignor("range")])
    nodes.poll()
    assert nodes.one("JoinGroup").body.protocols[0].metadata == blob


def test_a_fatal_error_of_a_topic_is_raised() -> None:
    nodes = subscribed()
    nodes.answers["Metadata"] = lambda asked: nodes.metadata(asked, errors={"t": E.TOPIC_AUTHORIZATION_FAILED})
    with pytest.raises(BrokerError, match="topic t: TOPIC_AUTHORIZATION_FAILED"):
        nodes.poll()


# --- brokers of all versions -----------------------------------------------------------------------------------------

VERSIONS = [
    (api.name, version)
    for api in APIS.values()
    if api.name
    in (
        "Metadata",
        "FindCoordinator",
        "JoinGroup",
        "SyncGroup",
        "Heartbeat",
        "LeaveGroup",
        "OffsetCommit",
        "OffsetFetch",
    )
    for version in range(api.versions.first, newest(api.key) + 1)
]


@pytest.mark.parametrize(("api", "version"), VERSIONS)
def test_whatever_versions_a_broker_has(api: str, version: int) -> None:
    nodes = subscribed(served={api: (version, version)})
    nodes.poll()
    if version == 0 and api == "JoinGroup":
        assert nodes.one("JoinGroup").body.rebalance_timeout_ms == -1
    nodes.joined(5, members={"me": ["t"]})
    nodes.synced([("t", 0)])
    nodes.until("Heartbeat")
    nodes.beat()
    commit = nodes.commit({("t", 0): 8})
    nodes.committed()
    assert (nodes.assigned, commit.done, commit.error) == (["t0"], True, None)
    nodes.engine.unsubscribe()
    nodes.settle()
    nodes.refuse("LeaveGroup", 0, polling=False)
    assert {one.version for one in nodes.seen if one.api == api} == {version}
    assert not nodes.engine.leaving
