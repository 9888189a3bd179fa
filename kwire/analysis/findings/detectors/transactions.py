from __future__ import annotations

from collections.abc import Iterator, Sequence

from kwire.analysis.findings.model import (
    CRITICAL,
    TRANSACTION,
    WARNING,
    Detector,
    Finding,
    Limits,
    Threshold,
    counted,
    quoted,
    reference,
    seconds,
)
from kwire.analysis.findings.observations import ABORT, CLOSED, COMMIT, FENCED, INIT, LAST, WORK, Step
from kwire.analysis.findings.views import TransactionView


def detect_zombies(view: TransactionView, limits: Limits) -> Iterator[Finding]:
    """Yield one finding for all requests that failed because their producer was fenced, if there are at least
    ``count``.

    ``count`` is a threshold in ``limits``.
    """
    fenced = [one for one in view.steps if one.kind == FENCED]
    if len(fenced) < limits["count"]:
        return
    first = fenced[0]
    inits = [one for one in view.steps if one.kind == INIT and one.ts <= first.ts]
    by_other = inits and (inits[-1].conn_id, inits[-1].client_id) != (first.conn_id, first.client_id)
    cause = f"`{inits[-1].client_id}` at {inits[-1].host} took over" if by_other else "its transaction timed out"
    yield Finding(
        severity=CRITICAL,
        begin=first.ts,
        end=fenced[-1].ts,
        cost=len(fenced),
        client_id=first.client_id,
        sentence=f"`{first.client_id}` at {first.host} is a zombie producer of {quoted(view.transactional_id)}: "
        f"{counted(len(fenced), 'request')} failed because {cause}.",
        evidence=[reference("frames", conn_id=one.conn_id, number=one.number) for one in fenced],
    )


def detect_hanging(view: TransactionView, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each transaction that was open for too long, or that its producer did not end.

    A transaction is open for too long after the fraction ``share`` of its timeout. ``timeout_ms`` is used for a timeout
    that was not captured. Both are thresholds in ``limits``. A producer did not end a transaction if its connections
    were closed while the transaction was open.
    """
    timeout = limits["timeout_ms"]
    opened: Step | None = None
    for step in view.steps:
        if step.kind == INIT and step.timeout_ms:
            timeout = step.timeout_ms
        if step.kind == WORK:
            opened = opened or step
        elif opened is not None and step.kind in (COMMIT, ABORT, INIT, FENCED):
            yield from _long(view, opened, step, timeout, limits, "was open for")
            opened = None
    if opened is not None:
        last = _last_sign(view.steps, opened)
        is_gone = last.kind == CLOSED
        how = "was still open when its producer was gone, after" if is_gone else "was still open after"
        yield from _long(view, opened, last, 0 if is_gone else timeout, limits, how)


def _last_sign(steps: Sequence[Step], opened: Step) -> Step:
    """Return the step whose time shows how long a producer was alive: the last one from ``opened`` on.

    A step is a call of the producer or the last packet of its connection. The last packet of a connection that is still
    open takes precedence over all calls and closed connections.

    Args:
        steps: steps of the producer, in order.
        opened: step that began the transaction.
    """
    later = [one for one in steps if one.ts >= opened.ts and (one.kind != CLOSED or one.client_id == opened.client_id)]
    still = [one for one in later if one.kind == LAST]
    return max(still or later or [opened], key=lambda one: one.ts)


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
    "zombie-producer",
    TRANSACTION,
    "Requests of a transactional producer fail because it is fenced (INVALID_PRODUCER_EPOCH, PRODUCER_FENCED): "
    "another producer initialized the same transactional id, or the transaction timed out. Two running producers with "
    "the same transactional id fence each other in turn.",
    detect_zombies,
    (Threshold("count", 1, "failed requests"),),
)
HANGING = Detector(
    "hanging-transaction",
    TRANSACTION,
    "A transaction was open for most of its timeout (`transaction.timeout.ms` in InitProducerId), or its producer "
    "closed its connections without ending the transaction. Consumers with `read_committed` cannot read beyond the "
    "first record of the transaction while it is open.",
    detect_hanging,
    (
        Threshold("share", 0.5, "time that the transaction was open, as a fraction of its timeout"),
        Threshold("timeout_ms", 60_000, "timeout of a transaction whose InitProducerId was not captured, in ms"),
    ),
)
