"""Planted bugs of share groups, which runs of the scheme ``shares`` must notice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from kwire import ErrorCode
from mockbroker.share import acknowledge, acquire, records, state, states
from mockbroker.share.group_settings import ShareGroupSettings
from mockbroker.share.in_flight import ACQUIRED, AVAILABLE, NO_MEMBER, RecordState, Run
from mockbroker.share.sessions import SessionKey, ShareSession, ShareSessions
from mockbroker.share.share_partition import SharePartition
from mockbroker.share.state import ShareState, StateBatch, StateKey
from mockbroker.share.states import ShareStates, StateChange

Patch = pytest.MonkeyPatch
Plant = Callable[[Patch], None]
SHARE_BUGS: list[tuple[tuple[str, ...], Plant]] = []


def bug(*by: str) -> Callable[[Plant], Plant]:
    def listed(plant: Plant) -> Plant:
        SHARE_BUGS.append((by, plant))
        return plant

    return listed


# --- the member that has acquired a record ---


@bug("I22")
def acquired_records_stay_available(patch: Patch) -> None:
    real = SharePartition.lock

    def lock(partition: SharePartition, run: Run, member_id: str, until: float) -> None:
        real(partition, run, member_id, until)
        run.state = AVAILABLE
        partition.may_have_available = True

    patch.setattr(SharePartition, "lock", lock)


@bug("I22")
def acquisition_locks_end_early(patch: Patch) -> None:
    real = ShareGroupSettings.lock_end
    patch.setattr(ShareGroupSettings, "lock_end", lambda settings, now: now + (real(settings, now) - now) / 2)


@bug("I22")
def renewed_locks_end_as_before(patch: Patch) -> None:
    real = acknowledge.acknowledge

    def without_renewal(partition: Any, member_id: Any, batches: Any, locked_until: float, now: float) -> Any:
        return real(partition, member_id, batches, now + 0.001, now)

    from mockbroker.broker.share_fetch import acknowledgements

    patch.setattr(acknowledgements, "acknowledge", without_renewal)


@bug("I22")
def records_of_others_are_acknowledged(patch: Patch) -> None:
    class Anybody(str):
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            return True

        def __ne__(self, other: object) -> bool:
            return other == NO_MEMBER

        __hash__ = str.__hash__

    real = acknowledge.acknowledge

    def by_anybody(partition: Any, member_id: str, *rest: Any) -> Any:
        return real(partition, Anybody(member_id), *rest)

    from mockbroker.broker.share_fetch import acknowledgements

    patch.setattr(acknowledgements, "acknowledge", by_anybody)


@bug("I22")
def one_expired_lock_ends_all_locks(patch: Patch) -> None:
    real = SharePartition.expire_locks
    patch.setattr(SharePartition, "expire_locks", lambda partition, now: real(partition, now + 1_000.0))


# --- delivery counts ---


@bug("I23")
def deliveries_are_not_counted(patch: Patch) -> None:
    real = SharePartition.lock

    def lock(partition: SharePartition, run: Run, member_id: str, until: float) -> None:
        run.deliveries -= run.deliveries > 0
        real(partition, run, member_id, until)

    patch.setattr(SharePartition, "lock", lock)


@bug("I23")
def records_are_delivered_without_limit(patch: Patch) -> None:
    def released_state(partition: SharePartition, run: Run) -> RecordState:
        return AVAILABLE

    patch.setattr(SharePartition, "released_state", released_state)


@bug("I23")
def a_release_takes_a_delivery_back(patch: Patch) -> None:
    real = SharePartition._set_released

    def released(partition: SharePartition, run: Run) -> None:
        run.deliveries -= 1
        real(partition, run)

    patch.setattr(SharePartition, "_set_released", released)


# --- records whose delivery is complete ---


@bug("I24")
def accepted_records_are_delivered_again(patch: Patch) -> None:
    patch.setitem(acknowledge.STATES, acknowledge.AcknowledgeType.ACCEPT, AVAILABLE)


@bug("I24")
def rejected_records_are_delivered_again(patch: Patch) -> None:
    patch.setitem(acknowledge.STATES, acknowledge.AcknowledgeType.REJECT, AVAILABLE)


@bug("I24")
def some_acknowledgements_are_not_stored(patch: Patch) -> None:
    real = SharePartition.store

    def store(partition: SharePartition, runs: Sequence[Run], now: float) -> ErrorCode:
        changed = list(runs)
        return real(partition, [each for each in changed if each.first % 3], now)

    patch.setattr(SharePartition, "store", store)


@bug("I24")
def a_new_leader_forgets_the_states_of_records(patch: Patch) -> None:
    real = SharePartition.load

    def load(partition: SharePartition, stored: ShareState, start_offset: int) -> None:
        real(partition, ShareState(stored.state_epoch, stored.start_offset), start_offset)

    patch.setattr(SharePartition, "load", load)


@bug("I24")
def snapshots_have_no_batches(patch: Patch) -> None:
    real = records.snapshot_record

    def empty(key: StateKey, stored: ShareState) -> tuple[bytes, bytes]:
        bare = ShareState(stored.state_epoch, stored.start_offset, stored.snapshot_epoch, stored.leader_epoch)
        return real(key, bare)

    patch.setattr(states, "snapshot_record", empty)


@bug("I24")
def an_older_share_state_replaces_a_newer_one(patch: Patch) -> None:
    real = state.combined

    def combined(batches: Iterable[StateBatch], start_offset: int) -> list[StateBatch]:
        turned = [each._replace(deliveries=9 - each.deliveries) for each in batches]
        return [each._replace(deliveries=9 - each.deliveries) for each in real(turned, start_offset)]

    patch.setattr(state, "combined", combined)


@bug("I24")
def a_part_is_acknowledged_and_stored_as_released(patch: Patch) -> None:
    real = SharePartition.store

    def store(partition: SharePartition, runs: Sequence[Run], now: float) -> ErrorCode:
        changed = list(runs)
        wrong = [Run(each.first, each.last, AVAILABLE, each.deliveries) for each in changed[1:]]
        return real(partition, [*changed[:1], *wrong], now)

    patch.setattr(SharePartition, "store", store)


# --- start offsets and sessions ---


@bug("I25")
def a_start_offset_moves_back(patch: Patch) -> None:
    real = SharePartition.expire_locks

    def expire(partition: SharePartition, now: float) -> bool:
        released = real(partition, now)
        partition.start -= released and partition.start > 0
        return released

    patch.setattr(SharePartition, "expire_locks", expire)


@bug("I25")
def a_write_stores_no_start_offset(patch: Patch) -> None:
    real = ShareStates.write

    def write(stored: ShareStates, key: StateKey, change: StateChange, now: float) -> ErrorCode:
        if change.start_offset % 3 == 2:
            change = StateChange(change.state_epoch, change.leader_epoch, 0, change.complete_count, change.batches)
        return real(stored, key, change, now)

    patch.setattr(ShareStates, "write", write)


@bug("I26")
def epochs_of_sessions_are_not_checked(patch: Patch) -> None:
    def find(sessions: ShareSessions, key: SessionKey, epoch: int) -> ShareSession | ErrorCode:
        return sessions.get(key) or ErrorCode.SHARE_SESSION_NOT_FOUND

    patch.setattr(ShareSessions, "find", find)


@bug("I13")
def sessions_of_closed_connections_are_kept(patch: Patch) -> None:
    patch.setattr(ShareSessions, "disconnect", lambda *_: None)


@bug("I22", "I23")
def available_and_acquired_records_are_one_run(patch: Patch) -> None:
    def available(batch: Any, first: int, last: int) -> list[Run]:
        batch.runs_between(first, last)
        return [
            run for run in batch.runs if run.state in (AVAILABLE, ACQUIRED) and first <= run.first and run.last <= last
        ]

    patch.setattr(acquire, "_available", available)
