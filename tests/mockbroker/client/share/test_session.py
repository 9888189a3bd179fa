from __future__ import annotations

from uuid import UUID

from mockbroker.client.share.session import ShareSession

A, B, C = ((UUID(int=number), number) for number in (1, 2, 3))


def test_requests_name_only_changed_partitions() -> None:
    session = ShareSession()
    assert session.changes({A, B}) == ([A, B], [])
    session.succeeded({A, B})
    assert session.changes({A, B}) == ([], [])
    assert session.changes({B, C}) == ([C], [A])


def test_each_request_advances_the_epoch() -> None:
    session = ShareSession()
    assert (session.epoch, session.established) == (0, False)
    session.succeeded({A})
    session.succeeded()
    assert (session.epoch, session.partitions) == (2, {A})
    session.epoch = 2**31 - 1
    session.succeeded()
    assert session.epoch == 1


def test_lost_session_begins_again() -> None:
    session = ShareSession()
    session.succeeded({A})
    session.reset()
    assert (session.epoch, session.changes({A})) == (0, ([A], []))


def test_session_epoch_wraps_around_to_1() -> None:
    session = ShareSession()
    session.epoch = 2_147_483_647
    session.succeeded()
    assert session.epoch == 1
