from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from kwire.analysis.events import error_name
from kwire.analysis.findings.model import (
    CLIENT,
    NOTICE,
    WARNING,
    Detector,
    Finding,
    Limits,
    Threshold,
    counted,
    reference,
    seconds,
)
from kwire.analysis.findings.observations import WINDOW_US, Tally
from kwire.analysis.findings.views import ClientView, most_in_window
from kwire.analysis.usage import api_name
from kwire.apikeys import ApiKey
from kwire.errorcodes import ErrorCode

# Errors that are part of a protocol's normal course.
EXPECTED = {
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.MEMBER_ID_REQUIRED,
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.UNSUPPORTED_VERSION,
}


def detect_metadata(client: ClientView, limits: Limits) -> Iterator[Finding]:
    """Yield one finding for all windows in which a client sent at least ``per_second`` Metadata requests per second.

    A window is WINDOW_US long. ``per_second`` is a threshold in ``limits``. No finding is yielded without such a
    window.
    """
    busy = [
        one
        for one in client.tallies
        if one.api_key == ApiKey.METADATA and one.calls >= limits["per_second"] * WINDOW_US / 1e6
    ]
    if not busy:
        return
    calls = sum(one.calls for one in busy)
    begin, end = min(one.first_ts for one in busy), max(one.last_ts for one in busy)
    yield Finding(
        severity=WARNING,
        begin=begin,
        end=end,
        cost=calls,
        client_id=client.client_id,
        sentence=f"{client.name} sent {calls} Metadata requests in {seconds(end - begin)}.",
        evidence=[reference("api_usage", api_name="Metadata", client_id=client.client_id)],
    )


def detect_errors(client: ClientView, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each error code that is frequent in the responses of an API to a client.

    An error code is frequent if two conditions are true. At least ``count`` responses have the error code. And these
    responses are at least the fraction ``share`` of all calls of the API in the windows from the first to the last of
    them. ``count`` and ``share`` are thresholds in ``limits``. The error codes in EXPECTED are ignored.
    """
    for api, tallies in sorted(_by_api(client).items()):
        errors: dict[int, list[Tally]] = defaultdict(list)
        for one in tallies:
            for code in one.errors.keys() - EXPECTED:
                errors[code].append(one)
        for code, own in sorted(errors.items()):
            count, first, last = _total(code, own)
            calls = sum(one.calls for one in tallies if one.first_ts <= last and one.last_ts >= first)
            if count < limits["count"] or count < calls * limits["share"]:
                continue
            yield Finding(
                severity=WARNING,
                begin=first,
                end=last,
                cost=count,
                client_id=client.client_id,
                sentence=f"{client.name} received {error_name(code)} in {count} of {calls} responses to "
                f"{api_name(api)} in {seconds(last - first)}.",
                evidence=[reference("errors", api_name=api_name(api), error_code=code, client_id=client.client_id)],
            )


def detect_retries(client: ClientView, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each API and error code if a client repeats calls of the API without a pause although they
    fail.

    In at least one window of WINDOW_US, ``count`` or more responses must have the error code, with at least
    ``per_second`` of these responses per second. Both are thresholds in ``limits``. The error codes in EXPECTED are
    ignored.
    """
    for api, tallies in sorted(_by_api(client).items()):
        dense: dict[int, list[Tally]] = defaultdict(list)
        for one in tallies:
            for code, (count, first, last) in one.errors.items():
                span = max(last - first, 1_000_000)
                if count >= limits["count"] and count >= limits["per_second"] * span / 1e6 and code not in EXPECTED:
                    dense[code].append(one)
        for code, own in sorted(dense.items()):
            count, first, last = _total(code, own)
            yield Finding(
                severity=WARNING,
                begin=first,
                end=last,
                cost=count,
                client_id=client.client_id,
                sentence=f"{client.name} retried {api_name(api)} {counted(count, 'time')} in {seconds(last - first)} "
                f"although each failed with {error_name(code)}.",
                evidence=[reference("errors", api_name=api_name(api), error_code=code, client_id=client.client_id)],
            )


def detect_reconnects(client: ClientView, limits: Limits) -> Iterator[Finding]:
    """Yield a finding if a client opened at least ``count`` short connections within ``window_ms``.

    A connection is short if it ended within ``lived_ms`` of its beginning. All three are thresholds in ``limits``.
    """
    short = [
        one
        for one in client.connections
        if one.closed is not None and one.syn_seen and one.last_ts - one.first_ts < limits["lived_ms"] * 1000
    ]
    if not short:
        return
    low, high = most_in_window([one.first_ts for one in short], limits["window_ms"] * 1000)
    loop = short[low : high + 1]
    if len(loop) < limits["count"]:
        return
    begin, end = loop[0].first_ts, max(one.last_ts for one in loop)
    yield Finding(
        severity=WARNING,
        begin=begin,
        end=end,
        cost=len(loop),
        client_id=client.client_id,
        sentence=f"{client.name} opened {counted(len(loop), 'connection')} in {seconds(end - begin)}, which ended "
        f"within {seconds(max(one.last_ts - one.first_ts for one in loop))}.",
        evidence=[reference("connections", conn_id=one.conn_id) for one in loop],
    )


def detect_throttling(client: ClientView, limits: Limits) -> Iterator[Finding]:
    """Yield a finding if the sum of the throttle times of a client is at least ``throttle_ms``, a threshold in
    ``limits``.
    """
    throttled = [one for one in client.tallies if one.throttle_ms]
    total = sum(one.throttle_ms for one in throttled)
    if total < limits["throttle_ms"]:
        return
    begin, end = min(one.first_ts for one in throttled), max(one.last_ts for one in throttled)
    apis = ", ".join(sorted({str(api_name(one.api_key)) for one in throttled}))
    yield Finding(
        severity=NOTICE if total < limits["warning_ms"] else WARNING,
        begin=begin,
        end=end,
        cost=total,
        client_id=client.client_id,
        sentence=f"Brokers throttled {client.name} for {seconds(total * 1000)} in {seconds(end - begin)} ({apis}).",
        evidence=[reference("frames", client_id=client.client_id, api_name=apis.partition(",")[0])],
    )


def _total(code: int, tallies: Sequence[Tally]) -> tuple[int, int, int]:
    """Return the number of responses with an error code, and the times of the first and the last of these responses.

    Times are microseconds since 1970.

    Args:
        code: the error code.
        tallies: counts of calls, at least one. Each count must contain the error code.
    """
    counts, firsts, lasts = zip(*(one.errors[code] for one in tallies), strict=True)
    return sum(counts), min(firsts), max(lasts)


def _by_api(client: ClientView) -> dict[int, list[Tally]]:
    by_api: dict[int, list[Tally]] = defaultdict(list)
    for one in client.tallies:
        by_api[one.api_key].append(one)
    return by_api


METADATA_STORM = Detector(
    "metadata-storm",
    CLIENT,
    "A client requests Metadata in a loop, because it waits for a topic or a leader that does not exist, or because "
    "the application creates clients in a loop. Requests are counted in windows of 10 s.",
    detect_metadata,
    (Threshold("per_second", 2, "Metadata requests per second in a window"),),
)
ERROR_RATE = Detector(
    "error-rate",
    CLIENT,
    "Many of the responses to one API have the same error code. Errors of normal operation do not count: "
    "REBALANCE_IN_PROGRESS, MEMBER_ID_REQUIRED, the errors of fetch sessions, and UNSUPPORTED_VERSION.",
    detect_errors,
    (
        Threshold("count", 5, "responses with the error code"),
        Threshold(
            "share",
            0.1,
            "responses with the error code, as a fraction of all responses from the first to the last of them",
        ),
    ),
)
RETRY_LOOP = Detector(
    "retry-loop",
    CLIENT,
    "A client repeats a request that fails, without backing off. Requests are counted in windows of 10 s. Errors of "
    "normal operation do not count (see `error-rate`).",
    detect_retries,
    (
        Threshold("count", 20, "failed requests in a window"),
        Threshold(
            "per_second", 5, "failed requests per second, from the first to the last failed request of the window"
        ),
    ),
)
RECONNECT_LOOP = Detector(
    "reconnect-loop",
    CLIENT,
    "A client repeatedly opens connections that soon end: authentication fails, a proxy or firewall closes the "
    "connections, or the application creates a client for each request.",
    detect_reconnects,
    (
        Threshold("count", 10, "short connections in the window"),
        Threshold("lived_ms", 2_000, "duration below which a connection is short, in ms"),
        Threshold("window_ms", 60_000, "length of the window, in ms"),
    ),
)
THROTTLED = Detector(
    "throttled-client",
    CLIENT,
    "Brokers throttled a client because it exceeded a quota. The detector adds up `throttle_time_ms` of all responses "
    "to the client.",
    detect_throttling,
    (
        Threshold("throttle_ms", 1_000, "sum of the throttle times, in ms"),
        Threshold("warning_ms", 10_000, "sum from which on the finding is a warning, in ms"),
    ),
)
