from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kwire.analysis.findings.model import (
    CRITICAL,
    MOST_EVIDENCE,
    TRANSACTION,
    WARNING,
    Detector,
    Finding,
    Limits,
    Threshold,
    quoted,
    reference,
    seconds,
)
from kwire.analysis.findings.observations import ABORT, CLOSED, COMMIT, FENCED, INIT, LAST, WORK, Step, order_of
from kwire.analysis.findings.summaries import Fenced, LongTransactions
from kwire.analysis.findings.views import TransactionView
from kwire.counted import counted

_ZOMBIE, _HANGING = "zombie-producer", "hanging-transaction"


def sum_up_fenced(view: TransactionView, _limits: Limits) -> Fenced:
    """Return the requests that failed because their producer was fenced."""
    earlier: Fenced = view.earlier.get(_ZOMBIE, Fenced())
    total = Fenced(earlier.count, earlier.first, earlier.end, [*earlier.calls], earlier.started)
    for step in view.steps:
        if step.kind == INIT and (total.first is None or step.ts <= total.first.ts):
            total.started = step
        elif step.kind == FENCED:
            total.first = total.first or step
            total.count, total.end = total.count + 1, step.ts
            if len(total.calls) < MOST_EVIDENCE:
                total.calls.append((step.conn_id, step.number))
    return total


def detect_zombies(view: TransactionView, limits: Limits) -> Iterator[Finding]:
    """Yield one finding for all requests that failed because their producer was fenced, if there are at least
    ``count``.

    ``count`` is a threshold in ``limits``.
    """
    fenced = sum_up_fenced(view, limits)
    first, started = fenced.first, fenced.started
    if first is None or fenced.count < limits["count"]:
        return
    by_other = started is not None and (started.conn_id, started.client_id) != (first.conn_id, first.client_id)
    cause = (
        f"`{started.client_id}` at {started.host} took over" if started and by_other else "its transaction timed out"
    )
    yield Finding(
        severity=CRITICAL,
        begin=first.ts,
        end=fenced.end,
        cost=fenced.count,
        client_id=first.client_id,
        sentence=f"`{first.client_id}` at {first.host} is a zombie producer of {quoted(view.transactional_id)}: "
        f"{counted(fenced.count, 'request')} failed because {cause}.",
        evidence=[reference("frames", conn_id=conn_id, number=number) for conn_id, number in fenced.calls],
        evidence_count=fenced.count,
    )


def sum_up_transactions(view: TransactionView, limits: Limits) -> LongTransactions:
    """Return the transactions that were open for too long, and the one that is still open.

    A transaction is open for too long after the fraction ``share`` of its timeout. ``timeout_ms`` is used for a timeout
    that was not captured. Both are thresholds in ``limits``.
    """
    earlier: LongTransactions = view.earlier.get(_HANGING, LongTransactions(timeout=limits["timeout_ms"]))
    total = replace(earlier, ended=[*earlier.ended])
    packets: list[Step] = []  # last packets of connections at the time of the latest of them
    for step in view.steps:
        if step.kind == INIT and step.timeout_ms:
            total.timeout = step.timeout_ms
        if step.kind in (LAST, CLOSED):
            packets = [*(one for one in packets if one.ts == step.ts), step]
        elif step.kind == WORK and total.opened is None:
            total.opened = step
            for one in packets:
                _note_sign(total, one)
        elif total.opened is not None and step.kind in (COMMIT, ABORT, INIT, FENCED):
            if step.ts - total.opened.ts >= total.timeout * 1000 * limits["share"]:
                total.ended.append((total.opened, step, total.timeout))
            total.opened = total.still = total.last = None
        _note_sign(total, step)
    return total


def _note_sign(total: LongTransactions, step: Step) -> None:
    """Store a step if its time shows how long the producer of the open transaction was alive.

    A step is a call of the producer or the last packet of its connection. The latest step counts. The last packet of a
    connection that is still open takes precedence over all calls and closed connections.
    """
    opened = total.opened
    if opened is None or step.ts < opened.ts or (step.kind == CLOSED and step.client_id != opened.client_id):
        return
    if step.kind == LAST:
        total.still = _later(total.still, step)
    else:
        total.last = _later(total.last, step)


def _later(one: Step | None, other: Step) -> Step:
    return other if one is None or (-other.ts, *order_of(other)) < (-one.ts, *order_of(one)) else one


def detect_hanging(view: TransactionView, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each transaction that was open for too long, or that its producer did not end.

    ``sum_up_transactions`` finds the transactions. A producer did not end a transaction if its connections were closed
    while the transaction was open.
    """
    total = sum_up_transactions(view, limits)
    for opened, end, timeout in total.ended:
        yield from _long(view, opened, end, timeout, limits, "was open for")
    if total.opened is not None:
        last = total.still or total.last or total.opened
        is_gone = last.kind == CLOSED
        how = "was still open when its producer was gone, after" if is_gone else "was still open after"
        yield from _long(view, total.opened, last, 0 if is_gone else total.timeout, limits, how)


def _long(
    view: TransactionView, opened: Step, end: Step, timeout: float, limits: Limits, how: str
) -> Iterator[Finding]:
    lasted = end.ts - opened.ts
    if lasted < timeout * 1000 * limits["share"]:
        return
    yield Finding(
        severity=CRITICAL if end.kind in (LAST, CLOSED) else WARNING,
        begin=opened.ts,
        end=end.ts,
        cost=lasted / 1000,
        client_id=opened.client_id,
        sentence=f"A transaction of {quoted(view.transactional_id)} {how} {seconds(lasted)}: consumers with "
        "read_committed wait for its end.",
        evidence=[reference("frames", conn_id=opened.conn_id, number=opened.number)],
    )


ZOMBIE = Detector(
    _ZOMBIE,
    TRANSACTION,
    "Requests of a transactional producer fail because it is fenced (INVALID_PRODUCER_EPOCH, PRODUCER_FENCED): "
    "another producer initialized the same transactional id, or the transaction timed out. Two running producers with "
    "the same transactional id fence each other in turn.",
    detect_zombies,
    (Threshold("count", 1, "failed requests"),),
    sum_up_fenced,
)
HANGING = Detector(
    _HANGING,
    TRANSACTION,
    "A transaction was open for most of its timeout (`transaction.timeout.ms` in InitProducerId), or its producer "
    "closed its connections without ending the transaction. Consumers with `read_committed` cannot read beyond the "
    "first record of the transaction while it is open.",
    detect_hanging,
    (
        Threshold("share", 0.5, "time that the transaction was open, as a fraction of its timeout"),
        Threshold("timeout_ms", 60_000, "timeout of a transaction whose InitProducerId was not captured, in ms"),
    ),
    sum_up_transactions,
)
