"""Comparison of two captures: which rebalances, stops, lags, errors, latencies and findings became better or worse.

Captures differ in length. Counts and durations that add up are therefore compared per hour of capture, and errors per
thousand calls of their API. A difference in a count is judged only if it is larger than chance explains.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from math import sqrt

from kwire.analysis.columns import Row, Tables
from kwire.analysis.transactions import COMMITTED, REFUSED
from kwire.lazy_dataclass import dataclass

NEEDED = (
    "connections",
    "rebalances",
    "members",
    "offset_commits",
    "violations",
    "findings",
    "errors",
    "api_usage",
    "latency",
)  # names of the tables that are compared

WORSE, BETTER, SAME = "worse", "better", "same"
GROUP, API, ERROR, FINDING = "group", "api", "error", "finding"
KINDS = (GROUP, FINDING, ERROR, API)  # in the order of the report

RATIO = 1.25  # a value that changed by less than a quarter is the same
LEAST_MS = 1.0  # latencies and stops that differ by less are the same
LEAST_RECORDS = 100.0  # lags that differ by less are the same
LEAST_CALLS = 20  # calls of an API on both sides, below which its latency is not judged
DEVIATIONS = 2.0  # standard deviations of a count by which it must differ
HOUR_US = 3_600_000_000
PERCENTILES = (50, 90, 99)

# APIs whose requests wait in the broker as long as the client asked for, or for other members.
WAITING = ("Fetch", "ShareFetch", "JoinGroup", "SyncGroup", "ShareGroupHeartbeat")


@dataclass(frozen=True, slots=True)
class Difference:
    """One measure of one group, API, error or finding in both captures.

    Attributes:
        verdict: WORSE, BETTER or SAME; None if the measure is not judged.
        kind: GROUP, API, ERROR or FINDING.
        name: group id for GROUP; name of the API for API and ERROR; detector and the subject of its finding for
            FINDING.
        measure: name of the measure, such as ``rebalances``; name of the error for ERROR; severity for FINDING.
        unit: unit of the values; "" for counts.
        before: value in the first capture; None if the capture has no such value.
        after: value in the second capture; None if the capture has no such value.
        rate_before: ``before`` per hour of capture, or per thousand calls for errors. None if the values themselves are
            compared, as for latencies and lags.
        rate_after: rate of ``after``, computed as ``rate_before``.
    """

    verdict: str | None
    kind: str
    name: str
    measure: str
    unit: str
    before: float | None
    after: float | None
    rate_before: float | None = None
    rate_after: float | None = None


@dataclass(slots=True)
class _Measures:
    """The measures of one capture.

    Attributes:
        hours: length of the capture.
        groups: member ids by group id.
        found: group ids of the findings about groups, by the name of the finding in ``counts``.
        counts: number of occurrences, by kind, name and measure.
        sums: durations that add up over the capture, such as stops, in ms, by group and measure.
        largest: largest value of each measure of which only the maximum is compared, by group, measure and unit.
        calls: requests by API.
        latency: histogram by API: number of calls in each bucket; the key is the exponent n of the bucket [2**n,
            2**(n+1)) µs.
        longest: longest latency in ms by API.
    """

    hours: float = 0.0
    groups: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    found: dict[str, str] = field(default_factory=dict)
    counts: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    sums: dict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))
    largest: dict[tuple[str, str, str], float] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)
    latency: dict[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    longest: dict[str, float] = field(default_factory=dict)

    def raise_to(self, key: tuple[str, str, str], value: float | None) -> None:
        if value is not None:
            self.largest[key] = max(value, self.largest.get(key, value))


def differences(before: Tables, after: Tables) -> list[Difference]:
    """Return all measures of two captures, ordered by kind and name.

    If a group is in only one of the two captures, its measures and findings have no verdict.

    Args:
        before: rows of the first capture by table name, of the tables NEEDED.
        after: rows of the second capture by table name, of the same tables.
    """
    one, two = _measures(before), _measures(after)
    made = [*_members(one, two), *_counted(one, two), *_summed(one, two), *_largest(one, two), *_latencies(one, two)]
    alone = one.groups.keys() ^ two.groups.keys()
    unjudged = {(GROUP, group) for group in alone}
    unjudged |= {(FINDING, name) for name, group in (one.found | two.found).items() if group in alone}
    judged = [replace(each, verdict=None) if (each.kind, each.name) in unjudged else each for each in made]
    return sorted(judged, key=lambda each: (KINDS.index(each.kind), each.name))  # stable: measures keep their order


def hours(tables: Tables) -> float:
    """Return the total length of the captures in hours. The length of a capture is the time from the first to the last
    packet.
    """
    spans: dict[str, tuple[int, int]] = {}
    for row in tables["connections"]:
        if row["first_ts"] is None or row["last_ts"] is None:
            continue
        first, last = spans.get(row["capture_id"], (row["first_ts"], row["last_ts"]))
        spans[row["capture_id"]] = min(first, row["first_ts"]), max(last, row["last_ts"])
    return sum(last - first for first, last in spans.values()) / HOUR_US


def percentile(histogram: Mapping[int, int], percent: float) -> float | None:
    """Return a percentile of a latency histogram in ms, interpolated within the bucket; None for an empty histogram.

    Args:
        histogram: number of calls in each bucket; the key is the exponent n of the bucket [2**n, 2**(n+1)) µs.
        percent: from 0 to 100.
    """
    wanted = sum(histogram.values()) * percent / 100
    passed = 0
    for power, count in sorted(histogram.items()):
        if count and passed + count >= wanted:
            return float(2 ** (power + max(wanted - passed, 0) / count)) / 1000
        passed += count
    return None


def _measures(tables: Tables) -> _Measures:
    made = _Measures(hours=hours(tables))
    for row in tables["rebalances"]:
        group = row["group_id"]
        made.counts[GROUP, group, "rebalances"] += 1
        made.sums[group, "stopped by rebalances"] += row["stw_ms_max"] or 0.0
        made.raise_to((group, "longest stop", "ms"), row["stw_ms_max"])
    for row in tables["members"]:
        made.groups[row["group_id"]].add(row["member_id"])
    for row in tables["offset_commits"]:
        group = row["group_id"]
        made.groups[group]
        made.counts[GROUP, group, "refused commits"] += row["outcome"] == REFUSED
        if row["outcome"] == COMMITTED:
            made.raise_to((group, "largest lag at a commit", "records"), row["lag"])
    for row in tables["violations"]:
        made.counts[GROUP, row["group_id"], "violations"] += 1
    for row in tables["findings"]:
        name = f"{row['finding']} of {row['group_id'] or row['client_id'] or ''}"
        made.counts[FINDING, name, row["severity"]] += 1
        if row["group_id"]:
            made.found[name] = row["group_id"]
    for row in tables["errors"]:
        made.counts[ERROR, row["api_name"], row["error_name"] or str(row["error_code"])] += row["count"]
    for row in tables["api_usage"]:
        made.calls[row["api_name"] or f"API {row['api_key']}"] += row["count"]
    _add_latency(made, tables["latency"])
    return made


def _add_latency(made: _Measures, rows: Iterable[Row]) -> None:
    for row in rows:
        api = row["api_name"] or f"API {row['api_key']}"
        made.latency[api].update(row["histogram"] or {})
        if row["max_ms"] is not None:
            made.longest[api] = max(row["max_ms"], made.longest.get(api, 0.0))


def _members(one: _Measures, two: _Measures) -> Iterator[Difference]:
    for group in sorted({*one.groups, *two.groups}):
        sizes = (len(made.groups[group]) if group in made.groups else None for made in (one, two))
        yield Difference(None, GROUP, group, "members", "", *sizes)


def _counted(one: _Measures, two: _Measures) -> Iterator[Difference]:
    order = ("rebalances", "refused commits", "violations")
    keys = sorted({*one.counts, *two.counts}, key=lambda key: (key[0], key[1], key[2] not in order, key[2]))
    for key in keys:
        kind, name, measure = key
        first, second = one.counts[key], two.counts[key]
        calls = one.calls[name] / 1000, two.calls[name] / 1000
        per = calls if kind == ERROR else (one.hours, two.hours)
        rates = _per(first, per[0]), _per(second, per[1])
        verdict = _judged_count(first, second, *per)
        if first or second:
            yield Difference(verdict, kind, name, measure, "", first, second, *rates)


def _summed(one: _Measures, two: _Measures) -> Iterator[Difference]:
    for group, measure in sorted({*one.sums, *two.sums}):
        first, second = one.sums.get((group, measure), 0.0), two.sums.get((group, measure), 0.0)
        rates = _per(first, one.hours), _per(second, two.hours)
        verdict = SAME if abs(first - second) < LEAST_MS else _judged(*rates, 0.0)
        yield Difference(verdict, GROUP, group, measure, "ms", round(first, 3), round(second, 3), *rates)


def _largest(one: _Measures, two: _Measures) -> Iterator[Difference]:
    for key in sorted({*one.largest, *two.largest}):
        group, measure, unit = key
        first, second = one.largest.get(key), two.largest.get(key)
        verdict = _judged(first, second, LEAST_MS if unit == "ms" else LEAST_RECORDS)
        yield Difference(verdict, GROUP, group, measure, unit, first, second)


def _latencies(one: _Measures, two: _Measures) -> Iterator[Difference]:
    for api in sorted({*one.latency, *two.latency}):
        sizes = sum(one.latency[api].values()), sum(two.latency[api].values())
        is_judged = min(sizes) >= LEAST_CALLS and api not in WAITING
        for percent in PERCENTILES:
            first, second = (
                None if value is None else round(min(value, made.longest.get(api, value)), 3)
                for made, value in ((made, percentile(made.latency[api], percent)) for made in (one, two))
            )
            verdict = _judged(first, second, LEAST_MS) if is_judged else None
            yield Difference(verdict, API, api, f"p{percent}", "ms", first, second)
        yield Difference(None, API, api, "calls", "", *sizes, _per(sizes[0], one.hours), _per(sizes[1], two.hours))


def _per(value: float, size: float) -> float | None:
    return round(value / size, 3) if size else None


def _judged_count(first: int, second: int, before: float, after: float) -> str | None:
    """Return the verdict about a count in two captures of different size; a smaller count per size is better.

    The verdict is SAME if both counts are above 0 and chance can explain the difference, or if the counts per size
    differ at most by the factor RATIO. What occurs in only one capture is a difference, however rare. The verdict is
    None if the size of a capture is 0.

    Args:
        first: count in the first capture.
        second: count in the second capture.
        before: size of the first capture, in hours or thousands of calls.
        after: size of the second capture, in the same unit.
    """
    if not before or not after:
        return None
    scale = after / before
    expected = first * scale
    spread = DEVIATIONS * sqrt(first * scale * scale + second)
    if abs(second - expected) <= spread and first and second:
        return SAME
    return _judged(expected, float(second), 0.0)


def _judged(first: float | None, second: float | None, least: float) -> str | None:
    """Return the verdict about two values; a smaller value is better.

    The verdict is SAME if the values differ by at most ``least``, or if the larger value is at most RATIO times the
    smaller value.

    Args:
        first: value in the first capture; None if unknown, which makes the verdict None.
        second: value in the second capture; None if unknown, which makes the verdict None.
        least: difference up to which the verdict is SAME, in the unit of the values.
    """
    if first is None or second is None:
        return None
    low, high = sorted((first, second))
    if high - low <= least or high <= low * RATIO:
        return SAME
    return WORSE if second > first else BETTER
