"""The second stage of a stream without Spark: rows of micro-batches are added to stored states of buckets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import Row

from kwire.analysis.clusters import Clusters
from kwire.spark import bundles, group_inputs, plain, segment_references
from kwire.spark.capture_summary import CaptureSummary
from kwire.spark.following import ConnectionFollower
from kwire.spark.increments import SETTLED_US, Increments, Outcome
from kwire.spark.stale_buckets import buckets_to_rebuild
from kwire.spark.stream_follower import Follower, connection_rows
from kwire.spark.subjects import LateRowError

ByBucket = dict[int, dict[str, dict[str, list[Any]]]]  # rows by bucket, key and kind


class Batches:
    """A stream that reads one file in each micro-batch.

    ``settled_us``: see ``Increments``; ``settings``: changed thresholds; ``rebuilt``: the buckets that each micro-batch has
    rebuilt; ``states``: the stored states of buckets.
    """

    def __init__(self, settled_us: int = SETTLED_US, settings: Mapping[str, float] | None = None) -> None:
        self.settled_us = settled_us
        self.settings: Mapping[str, float] = settings or {}
        self.rebuilt: list[set[int]] = []
        self.states: dict[int, bytes] = {}
        self._follower, self._followers = Follower("c"), dict[bytes, ConnectionFollower]()
        self._summary = CaptureSummary()
        self._history: list[bundles.Bundle] = []
        self._open: dict[bytes, list[bundles.Bundle]] = {}
        self._current: dict[int, list[tuple[str, Any]]] = {}
        self._final: dict[int, list[tuple[str, Any]]] = {}

    def add(self, path: Path) -> None:
        """Read the next file."""
        fresh = self._follow(path)
        was = self._summary | CaptureSummary.of([one for some in self._before.values() for one in some])
        self._history += fresh
        self._summary |= CaptureSummary.of(fresh)
        pending = [one for some in self._open.values() for one in some]
        now = self._summary | CaptureSummary.of(pending)
        whole = Clusters(was.statements) != Clusters(now.statements)
        convert = Increments(
            "c", now.names, Clusters(now.statements), frozenset(now.unread), self.settings, self.settled_us
        )
        new, more = self._by_bucket(fresh, now), self._by_bucket(pending, now)
        rebuilt = set(range(bundles.BUCKETS)) if whole else buckets_to_rebuild(was, now)
        changed = {*new, *more, *self.states} & rebuilt | {*new, *more}
        rebuilt |= changed - self.states.keys()
        self.rebuilt.append(set())
        every: ByBucket | None = None
        for bucket in sorted(changed):
            outcome = None
            if bucket not in rebuilt:
                try:
                    state = plain.loads(self.states[bucket])
                    outcome = convert.bucket(state, new.get(bucket, {}), more.get(bucket, {}))
                except LateRowError:
                    outcome = None
            if outcome is None:
                every = self._by_bucket(self._history, now) if every is None else every
                outcome = convert.bucket(None, every.get(bucket, {}), more.get(bucket, {}))
                self.rebuilt[-1].add(bucket)
                self._final[bucket] = []
            self._keep(bucket, outcome)

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Return the rows of a table after the last micro-batch."""
        some = [*self._current.values(), *self._final.values()]
        return [dict(row) for parts in some for name, rows in parts if name == table for row in rows]

    def _keep(self, bucket: int, outcome: Outcome) -> None:
        self.states[bucket] = plain.dumps(outcome.state)
        self._current[bucket] = outcome.current
        self._final.setdefault(bucket, []).extend(outcome.final)

    def _follow(self, path: Path) -> list[bundles.Bundle]:
        by_key: dict[bytes, list[Any]] = {}
        for split in segment_references.parts(str(path), 1 << 40):
            for batch in segment_references.references(segment_references.Part(0, split)):
                for row in batch.to_pylist():
                    by_key.setdefault(row["connection"], []).append(Row(**row | {"path": str(path)}))
        fresh: list[bundles.Bundle] = []
        self._before = dict(self._open)
        for key, segments in by_key.items():
            following = self._followers.setdefault(key, ConnectionFollower(key, "c"))
            for provisional in (False, True):
                collected: dict[str, list[Any]] = defaultdict(list)
                if provisional:
                    plain.loads(plain.dumps(following)).finish(collected)
                else:
                    self._follower._process_rows(following, segments, collected)
                rows = connection_rows(collected, key, provisional=provisional)
                made = [bundles.Bundle(row.kind, row.about, row.rows) for row in rows]
                if provisional:
                    self._open[key] = made
                else:
                    fresh += made
        return fresh

    @staticmethod
    def _by_bucket(some: Sequence[bundles.Bundle], known: CaptureSummary) -> ByBucket:
        for_groups = [one for one in some if one.kind in bundles.FOR_GROUPS]
        left_out = {*bundles.FOR_GROUPS, *bundles.PER_CONNECTION, *bundles.SUMMARY_KINDS, *bundles.STREAM_ONLY}
        if for_groups:
            send = partial(group_inputs.send_to_groups, known.names, known.groups, {}, known.by_producer, {})
            for_groups = [one for sent in send(iter([bundles.batch(for_groups)])) for one in bundles.bundles_of(sent)]
        found: ByBucket = {}
        for one in [*for_groups, *(one for one in some if one.kind not in left_out)]:
            of_key = found.setdefault(bundles.bucket_of(one.about), {}).setdefault(one.about, {})
            of_key.setdefault(one.kind, []).extend(bundles.unbundle(one.rows))
        return found
