"""The checker of invariant I45: clients exceed their quotas by no more than Kafka's rule for overshoot allows.

Kafka measures a rate over the last windows. A request that exceeds the quota is handled, but the connection is then
muted until the rate has fallen to the quota (KIP-219). A request that creates or deletes partitions is rejected while
the client has no tokens (KIP-599). Source: Kafka's ClientQuotaManager, Rate and TokenBucket.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from math import inf

from mockbroker.lab.simulation.checkers.final_log import FinalLog
from mockbroker.lab.simulation.upkeep_history import NO_QUOTA, QuotaUse

MUTATION = "controller_mutation_rate"
ROUNDING = 0.002  # seconds


def find_exceeded_quota(log: FinalLog) -> str:
    """Return a description of a quota that a client has exceeded; "" if no client has exceeded its quotas.

    ``log``: the records at the end of the run.
    """
    by_connection: dict[tuple[str, int], list[QuotaUse]] = {}
    for use in log.history.upkeep.quota_uses:
        by_connection.setdefault((use.client, use.connection), []).append(use)
    check = _Check(log)
    for uses in by_connection.values():
        ordered = sorted(uses, key=lambda use: use.done_at)
        found = check.mutations(ordered) if ordered[0].quota == MUTATION else check.rates(ordered)
        if found:
            return found
    return ""


class _Check:
    """The check of all requests, one connection at a time.

    Args:
        log: the records at the end of the run, with its history.
    """

    def __init__(self, log: FinalLog) -> None:
        self._log = log
        self._upkeep = log.history.upkeep

    def _elapsed(self, begin: float, end: float) -> float:
        """Return the time that has passed on the broker's clock from ``begin`` to ``end``, in seconds.

        ``begin``, ``end``: virtual times, seconds.
        """
        return self._log.history.broker_time(end) - self._log.history.broker_time(begin)

    def rates(self, uses: list[QuotaUse]) -> str:
        """Return a description of a byte rate that was exceeded, or of a throttle time that the broker did not apply.

        The result is "" if all quotas and throttle times were applied.

        ``uses``: requests of one connection, in order.
        """
        size, windows = self._upkeep.window
        for number, (use, following) in enumerate(pairwise(uses)):
            elapsed = self._elapsed(use.sent_at, following.done_at)
            if elapsed < use.throttle_ms / 1000 - ROUNDING:
                return (
                    f"the connection of {use.client} was throttled for {use.throttle_ms} ms at {use.done_at:.3f} s, but"
                    f" its next request was handled at {following.done_at:.3f} s"
                )
            limits = self._limits(use, use.sent_at, use.done_at)
            if NO_QUOTA in limits:
                continue
            counted = use.amount + sum(each.amount for each in self._measured(uses[:number], use, size * (windows - 1)))
            most = max(limits) * (elapsed + size * windows + ROUNDING)
            if counted > most:
                return (
                    f"{use.client} used {counted} bytes until {use.done_at:.3f} s, but at {following.done_at:.3f} s its"
                    f" {use.quota} of {max(limits):g} allows {most:.0f}"
                )
        return ""

    def _measured(self, earlier: list[QuotaUse], use: QuotaUse, span: float) -> Iterator[QuotaUse]:
        """Yield the requests that the measured rate certainly included when a request was handled.

        Args:
            earlier: earlier requests of the connection.
            use: the request.
            span: seconds for which the rate includes a request.
        """
        for each in earlier:
            recent = self._elapsed(each.sent_at, use.done_at) < span
            if (
                recent
                and each.done_at <= use.sent_at
                and NO_QUOTA not in self._limits(each, each.sent_at, each.done_at)
            ):
                yield each

    def _limits(self, use: QuotaUse, begin: float, end: float) -> set[float]:
        """Return the limits that may have applied to a client at some time in an interval.

        The result contains NO_QUOTA if the client may have had no quota.

        Args:
            use: request of the client.
            begin: start of the interval, virtual time in seconds.
            end: end of the interval, virtual time in seconds.
        """
        changes = [each for each in self._upkeep.quota_changes if (each.client, each.quota) == (use.client, use.quota)]
        begun = [each for each in changes if each.sent_at <= end]
        # The last change that certainly took effect before the interval; it has replaced the earlier ones.
        last = max((each.sent_at for each in begun if each.done_at <= begin), default=-inf)
        possible = {each.value for each in begun if each.done_at >= last}
        return possible | ({NO_QUOTA} if last == -inf else set())

    def mutations(self, uses: list[QuotaUse]) -> str:
        """Return a description of a controller_mutation_rate quota that was exceeded; "" if no such quota was exceeded.

        Requests from before and after an AlterClientQuotas request are not added up, because this request gives all
        clients new tokens.

        ``uses``: requests of one connection, in order.
        """
        for first, begin in enumerate(uses):
            counted = 0
            for use in uses[first:]:
                changes = self._upkeep.quota_changes
                if any(each.sent_at <= use.done_at and each.done_at >= begin.sent_at for each in changes):
                    break
                (limit, *others) = self._limits(use, begin.sent_at, use.done_at)
                if others or limit == NO_QUOTA:
                    break
                most = limit * (self._upkeep.burst + self._elapsed(begin.sent_at, use.done_at) + ROUNDING)
                if use.amount and counted > most:
                    return (
                        f"{use.client} mutated {counted} partitions from {begin.sent_at:.3f} s on, and {use.amount}"
                        f" more at {use.done_at:.3f} s, but its quota of {limit:g} a second allows {most:.1f}"
                    )
                counted += use.amount
        return ""
