"""What a stream keeps of a client or of a transactional id: the latest rows, and summaries of earlier rows.

The summaries of ``kwire.analysis.findings.summaries`` have what detectors need of the removed rows. So the findings
after each micro-batch are those of all rows. This module does not depend on Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kwire.analysis.findings import fold
from kwire.analysis.findings.detectors.clients import RECONNECT_LOOP, is_short
from kwire.analysis.findings.fold import Client, Settings
from kwire.analysis.findings.observations import CLOSED, LAST, WINDOW_US, Connected, Step, Tally, order_of
from kwire.analysis.findings.views import ClientView, TransactionView

_ENDS = (LAST, CLOSED)


class LateRowError(Exception):
    """The error for a row that is older than removed rows or final rows: the bucket must be rebuilt."""


class Calls(NamedTuple):
    """The calls and connections of one client."""

    tallies: Sequence[Tally] = ()
    connections: Sequence[Connected] = ()

    @property
    def begins(self) -> list[int]:
        """The begin of each window and connection."""
        return [one.window for one in self.tallies] + [one.first_ts for one in self.connections]

    def without_long(self, settings: Settings) -> Calls:
        """Return the calls and the short connections: no detector reads the others."""
        limits = RECONNECT_LOOP.limits(settings)
        return Calls(self.tallies, [one for one in self.connections if is_short(one, limits)])

    def divided(self, ts: int) -> tuple[Calls, Calls]:
        """Return the calls before a time, and those from this time on."""
        before, later = (
            Calls(
                [one for one in self.tallies if (one.window < ts) == is_before],
                [one for one in self.connections if (one.first_ts < ts) == is_before],
            )
            for is_before in (True, False)
        )
        return before, later


@dataclass(slots=True)
class Subject:
    """The state of a client or of a transactional id in one cluster.

    Attributes:
        tallies: call counts in windows from ``until`` on.
        connections: short connections that began at ``until`` or later.
        steps: steps after ``until``.
        until: time up to which rows were removed, in microseconds since 1970; -1 if none was removed.
        earlier: summaries of the removed rows, by detector.
    """

    tallies: list[Tally] = field(default_factory=list)
    connections: list[Connected] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    until: int = -1
    earlier: dict[str, Any] = field(default_factory=dict)

    def add_calls(self, client: Client, new: Calls, pending: Calls, settings: Settings, settled_us: int) -> ClientView:
        """Add call counts and connections of a client, remove old ones, and return the view of the client.

        Args:
            client: the client.
            new: new call counts and connections.
            pending: the same of open connections, which later micro-batches replace.
            settings: changed thresholds of detectors, by ``detector.threshold``.
            settled_us: age in microseconds after which rows are removed.

        Raises: LateRowError if a row is older than removed rows.
        """
        new, pending = new.without_long(settings), pending.without_long(settings)
        if min((*new.begins, *pending.begins), default=self.until) < self.until:
            raise LateRowError
        known = Calls([*self.tallies, *new.tallies], [*self.connections, *new.connections])
        until = min([max(known.begins, default=0) - settled_us, *pending.begins])
        until -= until % WINDOW_US
        kept = known
        if until > self.until:
            old, kept = known.divided(until)
            self.earlier = fold.summaries_of(fold.client_view(client, *old, self.earlier, until), settings)
            self.until = until
        self.tallies, self.connections = list(fold.client_view(client, *kept).tallies), list(kept.connections)
        every = [*self.tallies, *pending.tallies], [*self.connections, *pending.connections]
        return fold.client_view(client, *every, self.earlier)

    def add_steps(
        self, name: str, new: Sequence[Step], pending: Sequence[Step], settings: Settings, settled_us: int
    ) -> TransactionView:
        """Add steps of a transactional id, remove old ones, and return the view of the transactional id.

        The end of a connection may be older than removed steps: it matters only for an open transaction.

        Args:
            name: transactional id.
            new: new steps.
            pending: steps of open connections, which later micro-batches replace.
            settings: changed thresholds of detectors, by ``detector.threshold``.
            settled_us: age in microseconds after which steps are removed.

        Raises: LateRowError if a step is older than removed steps.
        """
        if any(one.ts <= self.until for one in (*new, *pending) if one.kind not in _ENDS):
            raise LateRowError
        known = sorted([*self.steps, *new], key=order_of)
        until = max((one.ts for one in known), default=0) - settled_us
        until = max(self.until, min([until, *(one.ts - 1 for one in pending if one.kind not in _ENDS)]))
        if old := [one for one in known if one.ts <= until]:
            self.earlier = fold.summaries_of(TransactionView(name, old, self.earlier), settings)
        self.until, self.steps = until, known[len(old) :]
        return TransactionView(name, sorted([*self.steps, *pending], key=order_of), self.earlier)
