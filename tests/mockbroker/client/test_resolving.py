"""Positions for partitions that have none: what the group has committed, else the policy, looked up in the log."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from tools.pretend import WALL_MS, Pretend

from kwire.errorcodes import ErrorCode as E
from kwire.messages.fetch import FETCH
from kwire.messages.find_coordinator import FIND_COORDINATOR
from kwire.messages.list_offsets import LIST_OFFSETS, ListOffsetsResponse
from kwire.messages.metadata import METADATA
from kwire.messages.offset_fetch import OFFSET_FETCH, OffsetFetchResponse
from mockbroker.client.errors import AuthorizationFailed, BrokerError, NoOffset, UnsupportedVersion

T0, T1 = ("t", 0), ("t", 1)
ASKED = OFFSET_FETCH.key, LIST_OFFSETS.key


def begun(
    leaders: Any = None, *, group: str = "g", held: Any = ASKED, committed: Any = None, start: int = 2, **how: Any
) -> Pretend:
    """Logs from 2 to 12; what is ``held`` waits."""
    pretend = Pretend({T0: 0} if leaders is None else leaders, group=group, **how)
    for log in pretend.logs.values():
        log.start = start
        log.add(10)
    pretend.committed = dict(committed or {})
    pretend.held |= set(held)
    pretend.run()
    return pretend


def twice(pretend: Pretend) -> None:
    pretend.poll()
    pretend.poll()


def only(pretend: Pretend, key: int) -> Any:
    (asked,) = (each for each in pretend.asked if each.key == key)
    return asked


# Committed offsets


@pytest.mark.parametrize("version", range(11))
def test_what_the_group_has_committed(version):
    """In every version; what has no committed offset falls back on the policy."""
    pretend = begun({T0: 0, T1: 0}, committed={T0: 7}, held=(), versions={OFFSET_FETCH.key: (0, version)})
    assert (pretend.at(T0), pretend.at(T1)) == (7, 2)
    (asked,) = pretend.of(OFFSET_FETCH.key)
    assert (asked.version, asked.body.require_stable) == (version, version >= 7)


def test_without_topic_ids_names_are_asked_for():
    pretend = begun(committed={T0: 7}, held=(), ids=False)
    assert (pretend.at(T0), pretend.of(OFFSET_FETCH.key)[0].version) == (7, 9)


def test_nothing_is_fetched_before_a_position_is_known():
    pretend = begun(committed={T0: 7})
    pretend.poll()
    assert pretend.fetches == []
    pretend.answer(only(pretend, OFFSET_FETCH.key))
    pretend.poll()
    assert pretend.wanted(only(pretend, FETCH.key)) == {T0: 7}


AGAIN = [E.COORDINATOR_LOAD_IN_PROGRESS, E.UNSTABLE_OFFSET_COMMIT, E.UNKNOWN_TOPIC_ID]
ELSEWHERE = [E.COORDINATOR_NOT_AVAILABLE, E.NOT_COORDINATOR]
RAISED = [
    (E.TOPIC_AUTHORIZATION_FAILED, AuthorizationFailed),
    (E.GROUP_AUTHORIZATION_FAILED, AuthorizationFailed),
    (E.UNKNOWN_TOPIC_OR_PARTITION, BrokerError),
    (E.INVALID_GROUP_ID, BrokerError),
    (E.UNKNOWN_SERVER_ERROR, BrokerError),
]


@pytest.mark.parametrize("version", [5, 7, 8, 10])
@pytest.mark.parametrize("of", [None, T0], ids=["of the group", "of a partition"])
@pytest.mark.parametrize("code", AGAIN + ELSEWHERE)
def test_what_is_asked_again(code, of, version):
    pretend = begun({T0: 0, T1: 0}, committed={T0: 7, T1: 8}, versions={OFFSET_FETCH.key: (0, version)})
    asked, looked = only(pretend, OFFSET_FETCH.key), len(pretend.of(FIND_COORDINATOR.key))
    pretend.answer(asked, pretend.offset_fetch(asked, error=code, of=of))
    assert [each for each in pretend.asked if each.key == OFFSET_FETCH.key] == [], "not at once"
    pretend.wait(0.5)
    assert len(pretend.of(FIND_COORDINATOR.key)) - looked == (code in ELSEWHERE)
    assert pretend.at(T0) is pretend.at(T1) is None, "all of it counts, or nothing"
    pretend.answer(only(pretend, OFFSET_FETCH.key))
    assert (pretend.at(T0), pretend.at(T1)) == (7, 8)


@pytest.mark.parametrize("of", [None, T0], ids=["of the group", "of a partition"])
@pytest.mark.parametrize(("code", "error"), RAISED)
def test_what_is_raised(code, error, of):
    """Once for each poll; nobody is asked again before somebody polls."""
    pretend = begun({T0: 0, T1: 0})
    for n in range(1, 3):
        asked = only(pretend, OFFSET_FETCH.key)
        pretend.answer(asked, pretend.offset_fetch(asked, error=code, of=of))
        pretend.wait(3.0)
        assert len(pretend.of(OFFSET_FETCH.key)) == n
        with pytest.raises(error, match=code.name):
            pretend.poll()
        assert pretend.at(T0) is None
        assert pretend.poll() == []


def test_an_id_that_the_coordinator_does_not_know():
    """The topic was made anew: metadata is asked for its id."""
    pretend = begun(committed={T0: 7})
    asked = only(pretend, OFFSET_FETCH.key)
    pretend.ids["t"] = UUID(int=99)
    pretend.answer(asked, pretend.offset_fetch(asked, error=E.UNKNOWN_TOPIC_ID, of=("", 0)))
    pretend.wait(0.5)
    asked = only(pretend, OFFSET_FETCH.key)
    assert asked.body.groups[0].topics[0].topic_id == UUID(int=99)


def test_a_coordinator_that_hangs_up():
    pretend = begun(committed={T0: 7})
    pretend.hang_up(0)
    pretend.wait(1.0)
    pretend.answer(only(pretend, OFFSET_FETCH.key))
    assert pretend.at(T0) == 7


@pytest.mark.parametrize("version", [7, 8, 10])
def test_an_answer_about_something_else(version):
    """A partition is missing, or the group is another: it is asked again."""
    pretend = begun({T0: 0, T1: 0}, committed={T0: 7, T1: 8}, versions={OFFSET_FETCH.key: (0, version)})
    asked = only(pretend, OFFSET_FETCH.key)
    answer = pretend.offset_fetch(asked)
    (answer.topics if version < 8 else answer.groups[0].topics)[0].partitions.pop()
    pretend.answer(asked, answer)
    pretend.wait(0.5)
    assert pretend.at(T0) is None
    asked = only(pretend, OFFSET_FETCH.key)
    answer = OffsetFetchResponse() if version < 8 else pretend.offset_fetch(asked)
    for group in answer.groups:
        group.group_id = "another"
    pretend.answer(asked, answer)
    pretend.wait(0.5)
    assert pretend.at(T0) is None
    pretend.answer(only(pretend, OFFSET_FETCH.key))
    assert (pretend.at(T0), pretend.at(T1)) == (7, 8)


def test_a_seek_while_committed_offsets_are_on_their_way():
    pretend = begun({T0: 0, T1: 0}, committed={T0: 7, T1: 8})
    pretend.seek(T0, 4)
    pretend.answer(only(pretend, OFFSET_FETCH.key))
    assert (pretend.at(T0), pretend.at(T1)) == (4, 8)


def test_a_revocation_while_committed_offsets_are_on_their_way():
    """The partition came back: what was asked for before it left says nothing about now."""
    pretend = begun(committed={T0: 7})
    late = only(pretend, OFFSET_FETCH.key)
    stale = pretend.offset_fetch(late)
    pretend.positions.assign([])
    pretend.run()
    pretend.positions.assign([T0])
    pretend.committed[T0] = 9
    pretend.answer(late, stale)
    pretend.wait(0.2)
    pretend.answer(only(pretend, OFFSET_FETCH.key))
    assert pretend.at(T0) == 9


def test_partitions_that_come_while_others_are_asked_for():
    pretend = begun({T0: 0, T1: 0}, assign=False, committed={T0: 7, T1: 8})
    pretend.engine.assign([T0])
    pretend.run()
    pretend.engine.assign([T0, T1])
    pretend.run()
    pretend.answer(only(pretend, OFFSET_FETCH.key))
    assert (pretend.at(T0), pretend.at(T1)) == (7, None)
    pretend.answer(only(pretend, OFFSET_FETCH.key))
    assert pretend.at(T1) == 8


# The policy


@pytest.mark.parametrize(
    ("policy", "at"),
    [
        ("earliest", 2),
        ("latest", 12),
        (timedelta(milliseconds=-7), 7),
        (timedelta(days=1), 2),
        (timedelta(days=-1), 12),
        (timedelta.max, 2),
    ],
)
@pytest.mark.parametrize("group", [None, "g"])
def test_the_policy(policy, at, group):
    """A duration counts back from now: the first record of that age or younger, the end if there is none."""
    pretend = begun(group=group, held=(), auto_offset_reset=policy)
    assert pretend.at(T0) == at


@pytest.mark.parametrize("group", [None, "g"])
def test_no_policy(group):
    """It is said with each poll, and the coordinator is asked for each poll once."""
    pretend = begun(group=group, held=(), auto_offset_reset="none")
    for n in range(1, 3):
        pretend.wait(5.0)
        assert len(pretend.of(OFFSET_FETCH.key)) == (n if group else 0)
        with pytest.raises(NoOffset, match="no committed offset and no reset policy: t-0") as raised:
            twice(pretend)
        assert raised.value.partitions == {T0: None}
    if group:  # somebody has committed meanwhile
        pretend.committed[T0] = 5
    else:
        pretend.seek(T0, 5)
    pretend.poll()
    assert pretend.at(T0) == 5


def test_the_end_of_what_is_committed():
    pretend = Pretend({T0: 0}, auto_offset_reset="latest", isolation_level="read_committed")
    pretend.logs[T0].add(9)
    pretend.logs[T0].stable = 4
    pretend.run()
    assert pretend.at(T0) == 4
    assert pretend.of(LIST_OFFSETS.key)[0].body.isolation_level == 1


# ListOffsets


@pytest.mark.parametrize("version", range(12))
def test_every_version_of_list_offsets(version):
    pretend = begun(held=(), group=None, versions={LIST_OFFSETS.key: (0, version)})
    assert pretend.at(T0) == 2
    assert pretend.of(LIST_OFFSETS.key)[0].version == version
    asked = pretend.engine.ask_log({T0: WALL_MS + 5})
    pretend.run()
    if version == 0:
        assert isinstance(asked.error, UnsupportedVersion), "it cannot look up records by their time"
    else:
        found = asked.found[T0]
        assert (found.offset, found.timestamp, found.leader_epoch) == (5, WALL_MS + 5, 0 if version >= 4 else -1)


def test_what_is_committed_takes_a_broker_that_knows():
    pretend = begun(held=(), group=None, isolation_level="read_committed", versions={LIST_OFFSETS.key: (0, 1)})
    with pytest.raises(UnsupportedVersion, match="ListOffsets v2"):
        pretend.poll()


def test_offsets_by_time():
    """One request for each leader; None where no record is that young."""
    pretend = begun({T0: 0, T1: 1}, held=(), group=None)
    asked = pretend.engine.ask_log({T0: WALL_MS + 6, T1: WALL_MS + 10**6})
    pretend.run()
    assert asked.done
    assert asked.error is None
    assert (asked.found[T0].offset, asked.found[T1]) == (6, None)


def test_records_from_before_there_were_timestamps():
    pretend = begun(group=None, held=())
    pretend.held.add(LIST_OFFSETS.key)
    asked = pretend.engine.ask_log({T0: 5})
    pretend.run()
    pretend.answer(only(pretend, LIST_OFFSETS.key), refusal(E.UNSUPPORTED_FOR_MESSAGE_FORMAT, T0))
    assert (asked.done, asked.error, asked.found) == (True, None, {T0: None})


def refusal(code: int, *partitions: Any) -> ListOffsetsResponse:
    kind = ListOffsetsResponse.Topic
    lines = [kind.Partition(partition_index=n, error_code=code) for _, n in partitions]
    return ListOffsetsResponse(topics=[kind(name="t", partitions=lines)])


LEADER_AGAIN = [
    E.NOT_LEADER_OR_FOLLOWER,
    E.REPLICA_NOT_AVAILABLE,
    E.KAFKA_STORAGE_ERROR,
    E.OFFSET_NOT_AVAILABLE,
    E.LEADER_NOT_AVAILABLE,
    E.FENCED_LEADER_EPOCH,
    E.UNKNOWN_LEADER_EPOCH,
    E.UNKNOWN_TOPIC_OR_PARTITION,
]


@pytest.mark.parametrize("code", LEADER_AGAIN)
def test_a_leader_that_cannot_say_yet(code):
    """Metadata first, then again, of whoever leads now."""
    pretend = begun({T0: 0, T1: 1}, group=None)
    first = next(asked for asked in pretend.asked if asked.node == 0)
    before = len(pretend.of(METADATA.key))
    pretend.answer(next(asked for asked in pretend.asked if asked.node == 1))
    pretend.leaders[T0], pretend.epochs[T0] = 1, 3
    pretend.answer(first, refusal(code, T0))
    pretend.wait(0.5)
    assert len(pretend.of(METADATA.key)) > before
    asked = only(pretend, LIST_OFFSETS.key)
    assert (asked.node, asked.body.topics[0].partitions[0].current_leader_epoch) == (1, 3)
    pretend.answer(asked)
    assert (pretend.at(T0), pretend.at(T1)) == (2, 2)


def test_a_leader_that_refuses():
    """Once for each poll, and the other partitions have what was found."""
    pretend = begun({T0: 0, T1: 1}, group=None)
    pretend.answer(next(asked for asked in pretend.asked if asked.node == 1))
    for n in range(2, 4):
        pretend.answer(only(pretend, LIST_OFFSETS.key), refusal(E.TOPIC_AUTHORIZATION_FAILED, T0))
        pretend.wait(2.0)
        assert len(pretend.of(LIST_OFFSETS.key)) == n
        with pytest.raises(AuthorizationFailed, match="ListOffsets of t-0"):
            pretend.poll()
        pretend.poll()
    assert (pretend.at(T0), pretend.at(T1)) == (None, 2)


def test_a_leader_that_leaves_out_or_adds_partitions():
    """What was not answered is asked again; what nobody asked for does not count, nor what comes twice."""
    pretend = begun({T0: 0, T1: 0}, group=None)
    asked = only(pretend, LIST_OFFSETS.key)
    kind = ListOffsetsResponse.Topic
    lines = [kind.Partition(partition_index=n, offset=at) for n, at in ((0, 3), (0, 8), (7, 9))]
    pretend.answer(asked, ListOffsetsResponse(topics=[kind(name="t", partitions=lines)]))
    assert (pretend.at(T0), pretend.at(T1)) == (3, None)
    pretend.wait(0.5)
    asked = only(pretend, LIST_OFFSETS.key)
    assert [line.partition_index for line in asked.body.topics[0].partitions] == [1]
    pretend.answer(asked)
    assert (pretend.at(T0), pretend.at(T1)) == (3, 2)


@pytest.mark.parametrize("policy", ["earliest", "latest"])
def test_a_leader_that_does_not_know_its_own_ends(policy):
    """It is asked again after a rest, not at once and without end."""
    pretend = begun(group=None, auto_offset_reset=policy)
    for n in range(1, 4):
        asked = only(pretend, LIST_OFFSETS.key)
        answer = pretend.offsets(asked)
        answer.topics[0].partitions[0].offset = -1
        pretend.answer(asked, answer)
        assert len(pretend.of(LIST_OFFSETS.key)) == n
        pretend.wait(1.5)
    pretend.answer(only(pretend, LIST_OFFSETS.key))
    assert pretend.at(T0) == (2 if policy == "earliest" else 12)


def test_a_seek_while_the_log_is_asked():
    pretend = begun({T0: 0, T1: 0}, group=None)
    pretend.seek(T0, 9)
    pretend.answer(only(pretend, LIST_OFFSETS.key))
    assert (pretend.at(T0), pretend.at(T1)) == (9, 2)


def test_another_question_while_the_log_is_asked():
    """To the beginning, then to the end: the answer to the first does not count."""
    pretend = begun(group=None)
    pretend.positions.of(T0).look_up(-1)
    pretend.positions.unsettled = True
    pretend.answer(only(pretend, LIST_OFFSETS.key))
    assert pretend.at(T0) is None
    pretend.answer(only(pretend, LIST_OFFSETS.key))
    assert pretend.at(T0) == 12


def test_a_revocation_while_the_log_is_asked():
    """Given back meanwhile, it may have a committed offset by now: what was asked for before does not count."""
    pretend = begun(committed={})
    pretend.answer(only(pretend, OFFSET_FETCH.key))
    late = only(pretend, LIST_OFFSETS.key)
    before = pretend.positions.of(T0)
    pretend.positions.assign([])
    pretend.positions.assign([T0])
    pretend.committed[T0] = 8
    pretend.answer(late)
    assert before.offset is None
    pretend.answer(only(pretend, OFFSET_FETCH.key))
    assert pretend.at(T0) == 8


def test_revoked_partition_ends_its_offset_lookup():
    """As of a topic that was deleted: nobody is asked about it for ever."""
    pretend = begun({T0: 0, T1: 1}, held=(LIST_OFFSETS.key,))
    del pretend.ids["t"]
    pretend.hang_up(0)
    pretend.hang_up(1)
    pretend.wait(3.0)
    pretend.engine.positions.assign(())
    pretend.wait(1.0)
    before = len(pretend.of(METADATA.key))
    pretend.engine.metadata.want(())
    pretend.wait(30.0)
    assert len(pretend.of(METADATA.key)) - before <= 1


def test_the_first_question_waits_for_metadata_alone():
    """There is no rest before it, though leaders were not known when it first was due."""
    pretend = begun(group=None, held=())
    assert (pretend.engine.time.now, pretend.at(T0)) == (1.0, 2)


def test_a_position_out_of_the_log_says_nothing_of_epochs():
    """What leader wrote the record there is not who wrote the one before, which was not read."""
    pretend = begun(group=None, held=())
    assert pretend.positions.of(T0).epoch == -1


def test_where_everything_is():
    """Positions to be committed: those that are known."""
    pretend = begun({T0: 0, T1: 1}, group=None)
    pretend.seek(T0, 5)
    assert {p: at.offset for p, at in pretend.positions.to_commit().items()} == {T0: 5}
