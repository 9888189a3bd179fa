"""Requests and responses of a fetch session (KIP-227)."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from mockbroker.client.fetch_session import FetchSession, PartitionRequest

T0, T1, T2 = ("t", 0), ("t", 1), ("t", 2)
ID, OTHER = UUID(int=1), UUID(int=2)


def request(offset: int = 0, epoch: int = 0, topic_id: UUID = ID) -> PartitionRequest:
    return PartitionRequest(offset, epoch, -1, topic_id)


def established(*partitions: Any) -> FetchSession:
    session = FetchSession()
    session.next_request({partition: request() for partition in partitions})
    session.handle_response(7)
    return session


def test_full_request_lists_all_partitions():
    session = FetchSession()
    wanted = {T0: request(), T1: request(5)}
    assert (session.full, session.next_request(wanted)) == (True, (wanted, ()))
    assert (session.session_id, session.epoch) == (0, 0)


def test_full_response_has_exactly_the_requested_partitions():
    session = FetchSession()
    session.next_request({T0: request(), T1: request()})
    assert session.accepts({T0, T1})
    assert not session.accepts({T0})
    assert not session.accepts({T0, T1, T2})


def test_incremental_request_lists_only_changes():
    """An incremental request lists changed offsets and epochs, new partitions, and partitions to forget."""
    session = established(T0, T1)
    assert (session.session_id, session.epoch, session.full) == (7, 1, False)
    changed, forgotten = session.next_request({T0: request(), T1: request(3)})
    assert (changed, forgotten) == ({T1: request(3)}, [])
    session.handle_response(7)
    changed, forgotten = session.next_request({T0: request(epoch=1), T2: request()})
    assert (changed, forgotten) == ({T0: request(epoch=1), T2: request()}, [(T1, request(3))])
    assert session.epoch == 2


def test_recreated_topic_is_forgotten_by_its_old_id():
    session = established(T0)
    changed, forgotten = session.next_request({T0: request(topic_id=OTHER)})
    assert (changed, forgotten) == ({T0: request(topic_id=OTHER)}, [(T0, request())])


def test_incremental_response_may_omit_unchanged_partitions():
    session = established(T0, T1)
    session.next_request({T0: request(1), T1: request()})
    assert session.accepts(set())
    assert session.accepts({T1})
    assert not session.accepts({T2})


def test_changes_of_a_failed_request_are_sent_again():
    session = established(T0, T1)
    session.next_request({T0: request(9), T1: request()})
    assert session.next_request({T0: request(9), T1: request()}) == ({T0: request(9)}, [])


def test_session_id_0_in_a_response_ends_the_session():
    """The next request is a full one."""
    session = established(T0)
    session.next_request({T0: request(1)})
    session.handle_response(0)
    assert (session.session_id, session.full) == (0, True)


def test_new_session_names_the_one_to_close():
    session = established(T0)
    session.start_new()
    assert (session.session_id, session.epoch, session.next_request({T0: request()})) == (7, 0, ({T0: request()}, ()))
    session.handle_response(8)
    assert (session.session_id, session.epoch) == (8, 1)
    session.reset()
    assert (session.session_id, session.epoch) == (0, 0)


def test_session_epoch_wraps_around_to_1():
    """The largest epoch is followed by 1, since 0 would start a session."""
    session = established(T0)
    session.epoch = 2_147_483_647
    session.next_request({T0: request()})
    session.handle_response(7)
    assert session.epoch == 1
