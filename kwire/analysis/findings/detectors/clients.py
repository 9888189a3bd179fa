from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from kwire.analysis.events import error_name
from kwire.analysis.findings.model import (
    CLIENT,
    MOST_EVIDENCE,
    NOTICE,
    WARNING,
    Detector,
    Finding,
    Limits,
    Threshold,
    reference,
    seconds,
)
from kwire.analysis.findings.observations import WINDOW_US, Connected
from kwire.analysis.findings.summaries import ErrorCount, ErrorCounts, Occurrences, ReconnectLoop, Throttled
from kwire.analysis.findings.views import ClientView
from kwire.analysis.usage import api_name
from kwire.apikeys import ApiKey
from kwire.counted import counted
from kwire.errorcodes import ErrorCode

# Errors that are part of a protocol's normal course.
EXPECTED = {
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.MEMBER_ID_REQUIRED,
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.UNSUPPORTED_VERSION,
}


_METADATA, _ERRORS, _RETRIES, _RECONNECTS, _THROTTLED = (
    "metadata-storm",
    "error-rate",
    "retry-loop",
    "reconnect-loop",
    "throttled-client",
)


def sum_up_metadata(client: ClientView, limits: Limits) -> Occurrences:
    """Return the Metadata requests in all windows with at least ``per_second`` of them per second.

    A window is WINDOW_US long. Windows whose requests last less than ``lasting_ms`` do not count: many clients with the
    same client id send as many when they start. ``per_second`` and ``lasting_ms`` are thresholds in ``limits``.
    """
    total: Occurrences = client.earlier.get(_METADATA, Occurrences())
    for one in client.tallies:
        lasting_ms = (one.last_ts - one.first_ts) / 1000
        if (
            one.api_key == ApiKey.METADATA
            and one.calls >= limits["per_second"] * WINDOW_US / 1e6
            and lasting_ms >= limits["lasting_ms"]
        ):
            total = total.plus(one.calls, one.first_ts, one.last_ts)
    return total


def detect_metadata(client: ClientView, limits: Limits) -> Iterator[Finding]:
    """Yield one finding for all Metadata requests of ``sum_up_metadata``, if there are any."""
    total = sum_up_metadata(client, limits)
    if not total.count:
        return
    yield Finding(
        severity=WARNING,
        begin=total.begin,
        end=total.end,
        cost=total.count,
        client_id=client.client_id,
        sentence=f"{client.name} sent {total.count} Metadata requests in {seconds(total.end - total.begin)}.",
        evidence=[reference("api_usage", api_name="Metadata", client_id=client.client_id)],
    )


def sum_up_errors(client: ClientView, _limits: Limits) -> ErrorCounts:
    """Return the errors in responses to a client, and the calls from the first to the last of each.

    The error codes in EXPECTED are ignored. Windows are removed if all later rows begin after their last response:
    then a later first error is after them, and a later last error is after them, too.
    """
    earlier: ErrorCounts = client.earlier.get(_ERRORS, ErrorCounts())
    codes = {about: ErrorCount(one.seen, one.calls, one.later) for about, one in earlier.codes.items()}
    for tally in client.tallies:
        for code, (count, first, last) in tally.errors.items():
            if code in EXPECTED:
                continue
            one = codes.setdefault((tally.api_key, code), ErrorCount())
            if last > one.seen.end:
                one.calls, one.later = one.calls + one.later, 0
            one.seen = one.seen.plus(count, first, last)
    windows = [*earlier.windows, *((one.api_key, one.first_ts, one.last_ts, one.calls) for one in client.tallies)]
    for api, begin, end, calls in windows:
        if end >= client.until:
            continue
        for (of_api, _), one in codes.items():
            if of_api == api and begin > one.seen.end:
                one.later += calls
            elif of_api == api and end >= one.seen.begin:
                one.calls += calls
    return ErrorCounts(codes, [window for window in windows if window[2] >= client.until])


def detect_errors(client: ClientView, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each error code that is frequent in the responses of an API to a client.

    An error code is frequent if two conditions are true. At least ``count`` responses have the error code. And these
    responses are at least the fraction ``share`` of all calls of the API in the windows from the first to the last of
    them. ``count`` and ``share`` are thresholds in ``limits``. The error codes in EXPECTED are ignored.
    """
    errors = sum_up_errors(client, limits)
    by_api: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for api, *window in errors.windows:
        by_api[api].append((window[0], window[1], window[2]))
    for (api, code), one in sorted(errors.codes.items()):
        first, last = one.seen.begin, one.seen.end
        calls = one.calls + sum(calls for begin, end, calls in by_api[api] if begin <= last and end >= first)
        if one.seen.count < limits["count"] or one.seen.count < calls * limits["share"]:
            continue
        yield Finding(
            severity=WARNING,
            begin=first,
            end=last,
            cost=one.seen.count,
            client_id=client.client_id,
            sentence=f"{client.name} received {error_name(code)} in {one.seen.count} of {calls} responses to "
            f"{api_name(api)} in {seconds(last - first)}.",
            evidence=[reference("errors", api_name=api_name(api), error_code=code, client_id=client.client_id)],
        )


def sum_up_retries(client: ClientView, limits: Limits) -> dict[tuple[int, int], Occurrences]:
    """Return the failed responses in windows with many of them, by API key and error code.

    A window is WINDOW_US long. ``count`` or more responses must have the error code, with at least ``per_second`` of
    these responses per second. Both are thresholds in ``limits``. The error codes in EXPECTED are ignored.
    """
    earlier: dict[tuple[int, int], Occurrences] = client.earlier.get(_RETRIES, {})
    dense = dict(earlier)
    for tally in client.tallies:
        for code, (count, first, last) in tally.errors.items():
            span = max(last - first, 1_000_000)
            if count >= limits["count"] and count >= limits["per_second"] * span / 1e6 and code not in EXPECTED:
                about = tally.api_key, code
                dense[about] = dense.get(about, Occurrences()).plus(count, first, last)
    return dense


def detect_retries(client: ClientView, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for each API and error code if a client repeats calls of the API without a pause although they
    fail, as in ``sum_up_retries``.
    """
    for (api, code), seen in sorted(sum_up_retries(client, limits).items()):
        yield Finding(
            severity=WARNING,
            begin=seen.begin,
            end=seen.end,
            cost=seen.count,
            client_id=client.client_id,
            sentence=f"{client.name} retried {api_name(api)} {counted(seen.count, 'time')} in "
            f"{seconds(seen.end - seen.begin)} although each failed with {error_name(code)}.",
            evidence=[reference("errors", api_name=api_name(api), error_code=code, client_id=client.client_id)],
        )


def is_short(one: Connected, limits: Limits) -> bool:
    """Return whether a connection ended within ``lived_ms`` of its beginning, a threshold of RECONNECT_LOOP."""
    return one.closed is not None and one.syn_seen and one.last_ts - one.first_ts < limits["lived_ms"] * 1000


def sum_up_reconnects(client: ClientView, limits: Limits) -> ReconnectLoop:
    """Return the window of ``window_ms`` in which a client opened the most short connections; the earliest of several.

    ``window_ms`` is a threshold in ``limits``.
    """
    earlier: ReconnectLoop = client.earlier.get(_RECONNECTS, ReconnectLoop())
    short = [(one.first_ts, one.conn_id, one.last_ts) for one in client.connections if is_short(one, limits)]
    every, window = [*earlier.recent, *short], limits["window_ms"] * 1000
    most, low = earlier.seen.count, 0
    best: tuple[int, int] | None = None
    for high, (begin, _, _) in enumerate(every):
        while begin - every[low][0] > window:
            low += 1
        if high >= len(earlier.recent) and high - low + 1 > most:
            most, best = high - low + 1, (low, high)
    recent = [one for one in every if one[0] >= client.until - window]
    if best is None:
        return ReconnectLoop(earlier.seen, earlier.longest, earlier.connections, recent)
    loop = every[best[0] : best[1] + 1]
    seen = Occurrences(len(loop), loop[0][0], max(end for _, _, end in loop))
    longest = max(end - begin for begin, _, end in loop)
    return ReconnectLoop(seen, longest, [name for _, name, _ in loop[:MOST_EVIDENCE]], recent)


def detect_reconnects(client: ClientView, limits: Limits) -> Iterator[Finding]:
    """Yield a finding if a client opened at least ``count`` short connections within ``window_ms``.

    A connection is short if it ended within ``lived_ms`` of its beginning. All three are thresholds in ``limits``.
    """
    loop = sum_up_reconnects(client, limits)
    if not loop.seen.count or loop.seen.count < limits["count"]:
        return
    yield Finding(
        severity=WARNING,
        begin=loop.seen.begin,
        end=loop.seen.end,
        cost=loop.seen.count,
        client_id=client.client_id,
        sentence=f"{client.name} opened {counted(loop.seen.count, 'connection')} in "
        f"{seconds(loop.seen.end - loop.seen.begin)}, which ended within {seconds(max(loop.longest, 1_000))}.",
        evidence=[reference("connections", conn_id=name) for name in loop.connections],
        evidence_count=loop.seen.count,
    )


def sum_up_throttling(client: ClientView, _limits: Limits) -> Throttled:
    """Return the throttled calls of a client."""
    earlier: Throttled = client.earlier.get(_THROTTLED, Throttled())
    total, apis = earlier.total, {*earlier.apis}
    for one in client.tallies:
        if one.throttle_ms:
            total = total.plus(one.throttle_ms, one.first_ts, one.last_ts)
            apis.add(one.api_key)
    return Throttled(total, sorted(apis))


def detect_throttling(client: ClientView, limits: Limits) -> Iterator[Finding]:
    """Yield a finding if the sum of the throttle times of a client is at least ``throttle_ms``, a threshold in
    ``limits``.
    """
    throttled = sum_up_throttling(client, limits)
    total = throttled.total
    if not throttled.apis or total.count < limits["throttle_ms"]:
        return
    apis = ", ".join(sorted(str(api_name(key)) for key in throttled.apis))
    yield Finding(
        severity=NOTICE if total.count < limits["warning_ms"] else WARNING,
        begin=total.begin,
        end=total.end,
        cost=total.count,
        client_id=client.client_id,
        sentence=f"Brokers throttled {client.name}: throttle times of {seconds(total.count * 1000)} in total in "
        f"responses within {seconds(total.end - total.begin)} ({apis}).",
        evidence=[reference("frames", client_id=client.client_id, api_name=apis.partition(",")[0])],
    )


METADATA_STORM = Detector(
    _METADATA,
    CLIENT,
    "A client requests Metadata in a loop, because it waits for a topic or a leader that does not exist, or because "
    "the application creates clients in a loop. Requests are counted in windows of 10 s.",
    detect_metadata,
    (
        Threshold("per_second", 2, "Metadata requests per second in a window"),
        Threshold("lasting_ms", 3_000, "shortest time from the first to the last Metadata request of a window, in ms"),
    ),
    sum_up_metadata,
)
ERROR_RATE = Detector(
    _ERRORS,
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
    sum_up_errors,
)
RETRY_LOOP = Detector(
    _RETRIES,
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
    sum_up_retries,
)
RECONNECT_LOOP = Detector(
    _RECONNECTS,
    CLIENT,
    "A client repeatedly opens connections that soon end: authentication fails, a proxy or firewall closes the "
    "connections, or the application creates a client for each request.",
    detect_reconnects,
    (
        Threshold("count", 10, "short connections in the window"),
        Threshold("lived_ms", 2_000, "duration below which a connection is short, in ms"),
        Threshold("window_ms", 60_000, "length of the window, in ms"),
    ),
    sum_up_reconnects,
)
THROTTLED = Detector(
    _THROTTLED,
    CLIENT,
    "Brokers throttled a client because it exceeded a quota. The detector adds up `throttle_time_ms` of all responses "
    "to the client.",
    detect_throttling,
    (
        Threshold("throttle_ms", 1_000, "sum of the throttle times, in ms"),
        Threshold("warning_ms", 10_000, "sum from which on the finding is a warning, in ms"),
    ),
    sum_up_throttling,
)
