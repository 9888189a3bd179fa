"""Planted bugs of Produce, Fetch, transactions and logs, which runs of the scheme ``data`` must notice.

Some bugs change committed offsets, which the checkers of the broker's state notice first. With ``clients_only`` these
checkers are off, so that only the history of the clients shows the bug. With ``alone`` all checkers except that of the
invariant are off, because another invariant would always notice the bug first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from kwire import ErrorCode as E
from kwire.apikeys import ApiKey
from kwire.records.batch import Batch
from mockbroker.base.timers import FetchDue
from mockbroker.broker.broker import Broker
from mockbroker.broker.fetch import delayed_fetch, session_cache
from mockbroker.broker.fetch.session_cache import FetchContext
from mockbroker.broker.handlers import fetch, list_offsets, produce
from mockbroker.groups.offsets import Offsets
from mockbroker.groups.registry import Groups
from mockbroker.lab.simulation import world
from mockbroker.lab.simulation.checkers import CHECKERS
from mockbroker.net.pump import Connection, Pump
from mockbroker.topics import producers
from mockbroker.topics.log import PartitionLog
from mockbroker.topics.model import Aborted, ClusterState, Partition
from mockbroker.topics.producers import Appended, Producers
from mockbroker.transactions.registry import Transactions
from mockbroker.transactions.state import Transaction

Patch = pytest.MonkeyPatch
Plant = Callable[[Patch], None]
RECORD_BUGS: list[tuple[tuple[str, ...], Plant]] = []


def bug(*by: str, clients_only: bool = False, alone: bool = False) -> Callable[[Plant], Plant]:
    def listed(plant: Plant) -> Plant:
        def planted(patch: Patch) -> None:
            if clients_only or alone:
                patch.setattr(world, "watchers", lambda *args, **options: [])
            if alone:
                patch.setattr(world, "CHECKERS", {name: CHECKERS[name] for name in by})
            plant(patch)

        planted.__name__ = plant.__name__
        RECORD_BUGS.append((by, planted))
        return plant

    return listed


# --- sequence numbers and epochs of producers ---


@bug("I28")
def a_duplicate_batch_is_appended_again(patch: Patch) -> None:
    real = Producers.check

    def check(self: Producers, batch: Batch, **options: bool) -> Any:
        result = real(self, batch, **options)
        return E.NONE if isinstance(result, Appended) else result

    patch.setattr(Producers, "check", check)


@bug("I28")
def only_the_last_batch_is_remembered(patch: Patch) -> None:
    real = Producers.record

    def record(self: Producers, batch: Batch, base_offset: int) -> None:
        real(self, batch, base_offset)
        if batch.producer_id >= 0:
            state = self._producers[batch.producer_id]
            state.batches = deque(list(state.batches)[-1:], maxlen=producers.REMEMBERED)

    patch.setattr(Producers, "record", record)


@bug("I28", "I27")
def a_restart_forgets_the_producers(patch: Patch) -> None:
    real = Partition.restore

    def restore(self: Partition, batches: Sequence[Batch], start: int, end: int, *rest: Any) -> None:
        real(self, batches, start, end, *rest)
        for state in self.producers:
            if state.opened is None:
                state.batches.clear()

    patch.setattr(Partition, "restore", restore)


@bug("I32", "I29")
def a_fenced_producer_may_write(patch: Patch) -> None:
    real = Producers.check

    def check(self: Producers, batch: Batch, **options: bool) -> Any:
        result = real(self, batch, **options)
        return E.NONE if result == E.INVALID_PRODUCER_EPOCH else result

    patch.setattr(Producers, "check", check)
    patch.setattr(produce, "_transaction_error", lambda *rest: E.NONE)


@bug("I32")
def a_fenced_producer_may_add_partitions(patch: Patch) -> None:
    real = Transactions.add

    def add(self: Transactions, *arguments: Any, **options: bool) -> Any:
        error = real(self, *arguments, **options)
        return E.NONE if error == E.PRODUCER_FENCED else error

    patch.setattr(Transactions, "add", add)


@bug("I28")
def a_gap_in_the_sequence_numbers_is_accepted(patch: Patch) -> None:
    real = Producers.check

    def check(self: Producers, batch: Batch, **options: bool) -> Any:
        found = real(self, batch, **options)
        return E.NONE if found == E.OUT_OF_ORDER_SEQUENCE_NUMBER else found

    patch.setattr(Producers, "check", check)


# --- markers and the last stable offset ---


@bug("I29")
def aborted_transactions_are_not_listed(patch: Patch) -> None:
    patch.setattr(Partition, "aborted_from", lambda self, offset, size: [])


@bug("I29")
def one_aborted_transaction_is_not_listed(patch: Patch) -> None:
    real = Partition.aborted_from

    def aborted_from(self: Partition, offset: int, size: int) -> list[Aborted]:
        return real(self, offset, size)[:1]

    patch.setattr(Partition, "aborted_from", aborted_from)


@bug("I29")
def a_restart_forgets_aborted_transactions(patch: Patch) -> None:
    real = Partition.restore

    def restore(self: Partition, batches: Sequence[Batch], start: int, end: int, *rest: Any) -> None:
        real(self, batches, start, end, *rest)
        self.forget_aborted(end)

    patch.setattr(Partition, "restore", restore)


@bug("I29")
def open_transactions_are_readable(patch: Patch) -> None:
    patch.setattr(Partition, "last_stable", property(lambda self: self.log.end))


@bug("I29")
def the_newest_open_transaction_limits_reads(patch: Patch) -> None:
    patch.setattr(Producers, "first_unstable", property(lambda self: next(reversed(self._open.values()), None)))


@bug("I29", "I27")
def the_last_partition_gets_the_wrong_marker(patch: Patch) -> None:
    real = Transactions.write_marker

    def write_marker(self: Transactions, partition: Partition, marker: Any, *, committed: bool, **rest: Any) -> Any:
        wrong = partition.index == 0 and not partition.topic.startswith("_")
        return real(self, partition, marker, committed=committed or wrong, **rest)

    patch.setattr(Transactions, "write_marker", write_marker)


@bug("I27", "I35")
def a_partition_gets_no_marker(patch: Patch) -> None:
    real = Transactions._complete

    def complete(self: Transactions, txn: Transaction, now: float) -> Any:
        places = sorted(each for each in txn.partitions if not each[0].startswith("_"))
        txn.partitions -= set(places[2:])
        return real(self, txn, now)

    patch.setattr(Transactions, "_complete", complete)


# --- the log ---


@bug("I30")
def a_fetch_leaves_out_a_batch(patch: Patch) -> None:
    real = PartitionLog.read

    def read(self: PartitionLog, offset: int, limit: int, **rest: Any) -> bytes:
        skips = offset % 7 == 3 and self.end - offset > 10
        return real(self, offset + 2 if skips else offset, limit, **rest)

    patch.setattr(PartitionLog, "read", read)


@bug("I27", "I30", "I35")
def a_new_leader_lacks_the_last_batch(patch: Patch) -> None:
    real = ClusterState.set_leader

    def set_leader(self: ClusterState, partition: Partition, node: int) -> None:
        if not partition.topic.startswith("_") and partition.producers.first_unstable is None:
            partition.truncate(max(partition.log.end - 1, partition.log.start))
        real(self, partition, node)

    patch.setattr(ClusterState, "set_leader", set_leader)


@bug("I27")
def produce_does_not_wait_for_the_disk(patch: Patch) -> None:
    real = Pump.hold

    def hold(self: Pump, connection: Connection) -> bool:
        call = connection.pending  # type: ignore[attr-defined]
        return call.ticket.api_key != ApiKey.PRODUCE and real(self, connection)

    patch.setattr(Pump, "hold", hold)


@bug("I30", "I36", clients_only=True)
def fetch_does_not_wait_for_the_disk(patch: Patch) -> None:
    _fetch_unsynced_records(patch)


@bug("I31", alone=True)
def a_crash_undoes_what_a_transaction_has_read(patch: Patch) -> None:
    """The transaction's own result then gets the offset that it has read."""
    _fetch_unsynced_records(patch)


def _fetch_unsynced_records(patch: Patch) -> None:
    real = Pump.hold

    def hold(self: Pump, connection: Connection) -> bool:
        unsent: Any = connection.out  # in the simulator, the queue has the responses together with their requests
        only_fetches = bool(unsent) and all(call.ticket.api_key == ApiKey.FETCH for call, _ in unsent)
        return not only_fetches and real(self, connection)

    patch.setattr(Pump, "hold", hold)


@bug("I27")
def produce_returns_the_next_offset(patch: Patch) -> None:
    real = Producers.check

    def check(self: Producers, batch: Batch, **options: bool) -> Any:
        result = real(self, batch, **options)
        return replace(result, base_offset=result.base_offset + 1) if isinstance(result, Appended) else result

    patch.setattr(Producers, "check", check)


# --- fetch sessions and offsets of the log ---


@bug("I35")
def a_session_keeps_the_first_fetch_offset(patch: Patch) -> None:
    real = session_cache._update

    def update(cached: dict[Any, Any], request: Any, **rest: Any) -> Any:
        before = {key: each.request for key, each in cached.items()}
        requested = real(cached, request, **rest)
        for key, each in cached.items():
            if key in before and before[key].fetch_offset % 5 == 4:
                each.request = before[key]
        return requested

    patch.setattr(session_cache, "_update", update)


@bug("I35")
def a_partition_of_a_session_is_never_read_again(patch: Patch) -> None:
    def is_unchanged(fetched: Any, partition: Partition) -> bool:
        return bool(fetched.high_watermark >= 0 and fetched.high_watermark == fetched.request.fetch_offset)

    patch.setattr(delayed_fetch, "_is_unchanged", is_unchanged)


@bug("I36")
def the_end_of_the_log_is_one_too_low(patch: Patch) -> None:
    real = list_offsets._lookup

    def lookup(partition: Partition, timestamp: int, end: int) -> Any:
        if timestamp == list_offsets.LATEST and end > partition.log.start:
            return end - 1, -1
        return real(partition, timestamp, end)

    patch.setattr(list_offsets, "_lookup", lookup)


# --- maximum waits ---


def _move_deadlines(patch: Patch, seconds: float) -> None:
    real = delayed_fetch.delay

    def delay(broker: Broker, call: Any, context: FetchContext, result: Any) -> None:
        real(broker, call, context, result)
        broker.client_deadlines.set(FetchDue(call.ticket), context.expires_at + seconds)

    patch.setattr(delayed_fetch, "delay", delay)
    patch.setattr(fetch, "delay", delay)


@bug("I46")
def a_fetch_waits_for_half_its_time(patch: Patch) -> None:
    _move_deadlines(patch, -0.25)


@bug("I46")
def a_fetch_waits_for_half_a_second_more(patch: Patch) -> None:
    _move_deadlines(patch, 0.5)


# --- offsets of groups ---


@bug("I37", "I34", clients_only=True)
def pending_offsets_do_not_block_lookups(patch: Patch) -> None:
    patch.setattr(Offsets, "is_unstable", lambda self, topic, partition: False)


@bug("I33", "I34", clients_only=True)
def offsets_of_aborted_transactions_are_committed(patch: Patch) -> None:
    real = Offsets.end_transaction
    patch.setattr(
        Offsets, "end_transaction", lambda self, producer_id, committed: real(self, producer_id, committed=True)
    )


@bug("I34", "I33", clients_only=True)
def offsets_of_transactions_are_dropped(patch: Patch) -> None:
    real = Offsets.end_transaction
    patch.setattr(
        Offsets, "end_transaction", lambda self, producer_id, committed: real(self, producer_id, committed=False)
    )


@bug("I34", clients_only=True)
def a_former_member_may_commit_in_a_transaction(patch: Patch) -> None:
    patch.setattr(Groups, "transactional_commit_error", lambda self, group_id, event: E.NONE)


@bug("I33", clients_only=True)
def an_older_commit_is_kept(patch: Patch) -> None:
    real = Offsets.store

    def store(self: Offsets, topic: str, partition: int, committed: Any) -> Any:
        if committed.offset % 3:
            return real(self, topic, partition, committed)
        return None

    patch.setattr(Offsets, "store", store)
