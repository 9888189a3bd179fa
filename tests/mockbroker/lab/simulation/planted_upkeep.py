"""Planted bugs of retention, compaction, expiry and quotas, which runs of the scheme ``upkeep`` must notice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from mockbroker.base.effects import Delivery, Reply
from mockbroker.broker import log_cleaner
from mockbroker.groups import registry as group_registry
from mockbroker.quotas.rates import TokenBucket, WindowedRate
from mockbroker.throttling.stage import QuotaStage
from mockbroker.topics import compaction, retention
from mockbroker.topics.cleanable import CleanableLog
from mockbroker.topics.producers import Producers
from mockbroker.transactions.registry import Transactions

Patch = pytest.MonkeyPatch
Plant = Callable[[Patch], None]
UPKEEP_BUGS: list[tuple[tuple[str, ...], Plant]] = []


def bug(*by: str) -> Callable[[Plant], Plant]:
    def listed(plant: Plant) -> Plant:
        UPKEEP_BUGS.append((by, plant))
        return plant

    return listed


# --- I42: retention ---


@bug("I42")
def segments_expire_at_half_their_age(patch: Patch) -> None:
    real = retention.expired_segments

    def expired(*given: Any, retention_ms: int, retention_bytes: int) -> int:
        return real(*given, retention_ms=retention_ms // 2, retention_bytes=retention_bytes)

    patch.setattr(retention, "expired_segments", expired)


@bug("I42")
def retention_shrinks_a_log_below_its_limit(patch: Patch) -> None:
    real = retention.expired_segments

    def expired(*given: Any, retention_ms: int, retention_bytes: int) -> int:
        return real(*given, retention_ms=retention_ms, retention_bytes=retention_bytes // 2)

    patch.setattr(retention, "expired_segments", expired)


@bug("I42")
def old_segments_are_never_deleted(patch: Patch) -> None:
    patch.setattr(retention, "expired_segments", lambda *_, **__: 0)


@bug("I42")
def the_segment_after_the_old_ones_is_deleted_too(patch: Patch) -> None:
    real = retention.expired_segments

    def expired(segments: Any, *given: Any, **how: Any) -> int:
        count = real(segments, *given, **how)
        return min(count + 1, len(segments) - 1) if count else 0

    patch.setattr(retention, "expired_segments", expired)


# --- I43: compaction ---


@bug("I43")
def young_records_are_compacted(patch: Patch) -> None:
    real = log_cleaner.cleanable_log
    patch.setattr(log_cleaner, "cleanable_log", lambda partition, **how: real(partition, **how | {"min_lag_ms": 0}))


@bug("I43")
def compaction_retains_the_first_record_of_a_key(patch: Patch) -> None:
    real = compaction._LatestRecords.add

    def add(self: Any, batch: Any) -> None:
        known = dict(self.offsets)
        real(self, batch)
        self.offsets |= known
        self.superseded.clear()

    def is_retained(self: Any, record: Any, _horizon: Any) -> bool:
        return record.offset >= self._until or record.offset <= self._latest.get(record.key, record.offset)

    patch.setattr(compaction._LatestRecords, "add", add)
    patch.setattr(compaction._Cleaner, "_is_retained", is_retained)


@bug("I43")
def tombstones_are_removed_by_the_first_compaction(patch: Patch) -> None:
    real = compaction._Cleaner._is_retained

    def is_retained(self: Any, record: Any, _horizon: Any) -> bool:
        return bool(real(self, record, 0))

    patch.setattr(compaction._Cleaner, "_is_retained", is_retained)


@bug("I43")
def superseded_records_remain(patch: Patch) -> None:
    real = compaction._Cleaner._is_retained

    def is_retained(self: Any, record: Any, horizon: Any) -> bool:
        return record.value is not None or bool(real(self, record, horizon))

    patch.setattr(compaction._Cleaner, "_is_retained", is_retained)


@bug("I43")
def compacted_records_move_together(patch: Patch) -> None:
    real = compaction.build_batch
    patch.setattr(compaction, "build_batch", lambda records, **how: real(records, **how | {"keep_offsets": False}))


@bug("I43")
def a_log_past_its_maximum_lag_is_not_compacted(patch: Patch) -> None:
    def needs(self: CleanableLog, config: Any) -> bool:
        return self.dirty_bytes > 0 and self.dirty_ratio > config.min_dirty_ratio and not self.overdue

    patch.setattr(CleanableLog, "needs_compaction", needs)


# --- I44: expiry ---


@bug("I5", "I44")
def committed_offsets_expire_early(patch: Patch) -> None:
    real = group_registry.delete_expired
    patch.setattr(
        group_registry,
        "delete_expired",
        lambda offsets, start, now, retention: real(offsets, start, now + retention / 2, retention),
    )


@bug("I44")
def transactional_ids_expire_early(patch: Patch) -> None:
    real = Transactions.remove_expired

    def remove(self: Transactions, now: float) -> None:
        real(self, now + self._settings.transactional_id_expiration_ms / 2_000)

    patch.setattr(Transactions, "remove_expired", remove)


@bug("I44")
def producer_ids_expire_early(patch: Patch) -> None:
    real = Producers.remove_expired
    patch.setattr(Producers, "remove_expired", lambda self, before_ms: real(self, before_ms + 4_000))


# --- I45: quotas ---


@bug("I45")
def a_throttled_connection_is_not_muted(patch: Patch) -> None:
    real = QuotaStage._muting

    def muting(self: QuotaStage, *given: Any) -> Any:
        effect = real(self, *given)
        return replace(effect, delivery=Delivery()) if isinstance(effect, Reply) else replace(effect, mute=False)

    patch.setattr(QuotaStage, "_muting", muting)


@bug("I45")
def throttle_times_are_a_quarter(patch: Patch) -> None:
    real = WindowedRate.excess
    patch.setattr(WindowedRate, "excess", lambda self, limit, now: real(self, limit, now) / 4)


@bug("I45")
def a_rate_forgets_its_earlier_windows(patch: Patch) -> None:
    real = WindowedRate._update_windows

    def update(self: Any, now: float) -> None:
        real(self, now)
        while len(self._samples) > 1:
            self._samples.popleft()
        self._earlier = 0.0

    patch.setattr(WindowedRate, "_update_windows", update)


@bug("I45")
def quota_tokens_return_at_once(patch: Patch) -> None:
    patch.setattr(TokenBucket, "tokens", lambda self, now: self.burst)


@bug("I45")
def a_mutation_takes_one_token_whatever_its_partitions(patch: Patch) -> None:
    real = TokenBucket.take
    patch.setattr(TokenBucket, "take", lambda self, amount, now: real(self, min(amount, 1), now))
