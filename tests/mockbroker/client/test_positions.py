"""Positions: offsets, resets and the assignment."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest

from mockbroker.client.errors import NotAssigned
from mockbroker.client.positions import OffsetAndMetadata, Position, Positions

T0, T1, T2 = ("t", 0), ("t", 1), ("t", 2)


def assigned(*partitions: tuple[str, int]) -> Positions:
    positions = Positions()
    positions.assign(partitions)
    positions.unresolved = False
    return positions


def test_new_position_is_unknown() -> None:
    position = Position()
    assert (position.known, position.fetchable, position.epoch, position.validated_epoch) == (False, False, -1, -1)
    assert (position.paused, position.revoking, position.validating) == (False, False, False)
    assert (position.replica, position.topic_id, position.reset_timestamp) == (None, None, None)


def test_offset_0_is_known_and_has_no_epoch() -> None:
    position = Position(validated_epoch=3, validating=True, topic_id=UUID(int=1), replica=(1, 5.0), reset_timestamp=-1)
    position.set_offset(0)
    assert (position.known, position.fetchable, position.offset, position.epoch) == (True, True, 0, -1)
    assert (position.validated_epoch, position.validating, position.reset_timestamp) == (-1, False, None)
    assert (position.replica, position.topic_id) == (None, None)
    position.set_offset(4, 2)
    assert (position.offset, position.epoch) == (4, 2)


@pytest.mark.parametrize("timestamp", [-1, -2, 0, timedelta(days=1)])
def test_reset_makes_a_position_unknown(timestamp: int | timedelta) -> None:
    position = Position(offset=3)
    position.reset_to(timestamp)
    assert (position.known, position.fetchable, position.reset_timestamp) == (False, False, timestamp)


@pytest.mark.parametrize("field", ["paused", "validating", "revoking"])
def test_position_is_not_fetched_meanwhile(field: str) -> None:
    position = Position(offset=3)
    assert position.fetchable
    setattr(position, field, True)
    assert not position.fetchable


def test_partition_that_stays_assigned_keeps_its_position() -> None:
    positions = assigned(T0, T1)
    kept = positions.of(T1)
    positions.assign([T1, T2])
    assert (list(positions), positions.of(T1), positions.unresolved) == ([T1, T2], kept, True)
    assert (len(positions), T0 in positions, positions.get(T0)) == (2, False, None)
    with pytest.raises(NotAssigned, match="t-0 is not assigned"):
        positions.of(T0)


def test_version_counts_the_changes_of_the_assignment() -> None:
    positions = assigned()
    assert positions.version == 0
    for version, partitions in ((1, [T0, T1]), (1, [T0, T1]), (2, [T1, T0]), (3, [T1]), (4, [])):
        positions.assign(partitions)
        assert positions.version == version


def test_seek_is_checked_by_the_resolver() -> None:
    positions = assigned(T0)
    positions.seek(T0, 7)
    assert (positions.of(T0).offset, positions.unresolved) == (7, True)
    with pytest.raises(NotAssigned):
        positions.seek(T1, 7)


def test_only_partitions_that_are_kept_are_read() -> None:
    positions = assigned(T0, T1)
    positions.keep_only([T1])
    assert [position.revoking for _, position in positions.items()] == [True, False]
    positions.keep_only([T0])
    assert [position.revoking for _, position in positions.items()] == [False, True]


def test_known_positions_are_committed_with_their_epochs() -> None:
    positions = assigned(T0, T1, T2)
    positions.of(T0).set_offset(0)
    positions.of(T1).set_offset(5, 2)
    assert positions.to_commit() == {T0: OffsetAndMetadata(0, "", -1), T1: OffsetAndMetadata(5, "", 2)}
