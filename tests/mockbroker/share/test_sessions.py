"""Share sessions: epochs, their partitions, and the partitions that a response contains."""

from __future__ import annotations

from uuid import UUID

from kwire import ErrorCode
from kwire.messages.share_fetch import ShareFetchRequest
from mockbroker.broker.slices import copy_with
from mockbroker.share.sessions import FINAL_EPOCH, LAST_EPOCH, SessionKey, ShareSession, ShareSessions

A, B = SessionKey("g", "a"), SessionKey("g", "b")
ONE, TWO = (UUID(int=1), 0), (UUID(int=1), 1)


def test_epochs_are_checked():
    sessions = ShareSessions(2)
    created = sessions.create(A, [ONE], 7)
    assert sessions.find(B, 1) == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert sessions.find(A, 2) == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert sessions.find(A, 1) is created
    assert sessions.find(A, FINAL_EPOCH) is created
    created.next_request()
    assert sessions.find(A, 1) == ErrorCode.INVALID_SHARE_SESSION_EPOCH, "an epoch is accepted once"
    assert sessions.find(A, 2) is created


def test_epoch_after_the_last_is_one():
    session = ShareSession(A, 7, epoch=LAST_EPOCH)
    session.next_request()
    assert session.epoch == 1


def test_number_of_sessions_is_limited():
    sessions = ShareSessions(1)
    first = sessions.create(A, [ONE], 7)
    assert sessions.create(B, [], 8) is None
    assert sessions.create(A, [TWO], 7) is not first
    assert sessions.remove(A) is not None
    assert sessions.create(B, [], 8) is not None
    assert len(sessions) == 1


def test_response_has_new_partitions_errors_and_records():
    session = ShareSession(A, 7, partitions={ONE: False})
    assert not session.selects(ONE, records=False, failed=False)
    session.update([TWO], [])
    assert session.selects(TWO, records=False, failed=False)
    assert not session.selects(TWO, records=False, failed=False)
    assert session.selects(TWO, records=False, failed=True)
    assert session.selects(TWO, records=False, failed=False), "the error is over"
    assert session.selects(ONE, records=True, failed=False)
    assert list(session.partitions) == [TWO, ONE], "a partition with records is read last"
    session.update([], [TWO])
    assert not session.selects(TWO, records=False, failed=False)


def test_closed_connection_names_its_last_session():
    sessions = ShareSessions(3)
    sessions.create(A, [], 7)
    last = sessions.create(B, [], 7)
    assert sessions.is_of(7)
    assert sessions.disconnect(7) is last
    assert sessions.disconnect(7) is None
    assert sessions.has_group("g")
    assert not sessions.has_group("h")


def test_partitions_of_a_request_are_those_of_its_session():
    sessions = ShareSessions(1)
    session = sessions.create(A, [ONE], 7)
    topic_id, partition = ONE[0], ShareFetchRequest.Topic.Partition(partition_index=1)
    request = ShareFetchRequest(group_id="g", member_id="a", share_session_epoch=1)
    assert sessions.partitions_of(request) == [ONE]
    request.topics = [ShareFetchRequest.Topic(topic_id=topic_id, partitions=[partition])]
    assert sessions.partitions_of(request) == [ONE, TWO]
    request.forgotten_topics_data = [ShareFetchRequest.ForgottenTopic(topic_id=topic_id, partitions=[0])]
    assert sessions.partitions_of(request) == [TWO]
    assert list(session.partitions) == [ONE]
    for changed in (
        {"share_session_epoch": 0},
        {"share_session_epoch": -1},
        {"is_renew_ack": True},
        {"member_id": "b"},
    ):
        assert sessions.partitions_of(copy_with(request, **changed)) is None
