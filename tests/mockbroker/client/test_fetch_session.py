"""What a fetch session tells, and what it takes for an answer (KIP-227)."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from mockbroker.client.fetch_session import MAX_EPOCH, FetchSession, PartitionRequest

T0, T1, T2 = ("t", 0), ("t", 1), ("t", 2)
ID, OTHER = UUID(int=1), UUID(int=2)


def asked(offset: int = 0, epoch: int = 0, topic_id: UUID = ID) -> PartitionRequest:
    return PartitionRequest(offset, epoch, -1, topic_id)


def begun(*partitions: Any) -> FetchSession:
    session = FetchSession()
    session.next_request({partition: asked() for partition in partitions})
    session.handle_response(7)
    return session


def test_a_full_request_names_everything():
    session = FetchSession()
    wanted = {T0: asked(), T1: asked(5)}
    assert (session.full, session.next_request(wanted)) == (True, (wanted, ()))
    assert (session.session_id, session.epoch) == (0, 0)


def test_a_full_answer_has_exactly_what_was_named():
    session = FetchSession()
    session.next_request({T0: asked(), T1: asked()})
    assert session.accepts({T0, T1})
    assert not session.accepts({T0})
    assert not session.accepts({T0, T1, T2})


def test_then_only_news_are_told():
    """An offset or an epoch that moved, what is new, and what is not wanted any more."""
    session = begun(T0, T1)
    assert (session.session_id, session.epoch, session.full) == (7, 1, False)
    told, forgotten = session.next_request({T0: asked(), T1: asked(3)})
    assert (told, forgotten) == ({T1: asked(3)}, [])
    session.handle_response(7)
    told, forgotten = session.next_request({T0: asked(epoch=1), T2: asked()})
    assert (told, forgotten) == ({T0: asked(epoch=1), T2: asked()}, [(T1, asked(3))])
    assert session.epoch == 2


def test_a_topic_made_anew_is_forgotten_by_its_old_id():
    session = begun(T0)
    told, forgotten = session.next_request({T0: asked(topic_id=OTHER)})
    assert (told, forgotten) == ({T0: asked(topic_id=OTHER)}, [(T0, asked())])


def test_a_later_answer_may_leave_out_what_did_not_change():
    session = begun(T0, T1)
    session.next_request({T0: asked(1), T1: asked()})
    assert session.accepts(set())
    assert session.accepts({T1})
    assert not session.accepts({T2})


def test_a_request_that_was_not_answered_is_told_again():
    session = begun(T0, T1)
    session.next_request({T0: asked(9), T1: asked()})
    assert session.next_request({T0: asked(9), T1: asked()}) == ({T0: asked(9)}, [])


def test_a_broker_that_ends_it():
    """Session 0 in an answer: the next request is a full one again."""
    session = begun(T0)
    session.next_request({T0: asked(1)})
    session.handle_response(0)
    assert (session.session_id, session.full) == (0, True)


def test_to_begin_anew_says_what_to_end():
    session = begun(T0)
    session.start_new()
    assert (session.session_id, session.epoch, session.next_request({T0: asked()})) == (7, 0, ({T0: asked()}, ()))
    session.handle_response(8)
    assert (session.session_id, session.epoch) == (8, 1)
    session.reset()
    assert (session.session_id, session.epoch) == (0, 0)


def test_epochs_wrap_around():
    """Behind the largest comes 1: 0 would begin a session."""
    session = begun(T0)
    session.epoch = MAX_EPOCH
    session.next_request({T0: asked()})
    session.handle_response(7)
    assert session.epoch == 1
