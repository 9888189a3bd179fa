"""Live state as Prometheus metrics, in the text format 0.0.4.

Group metrics have the names and labels of kafka_exporter; the names of capture metrics begin with ``kwire_``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate

from kwire.analysis.live import BUCKETS_S, LiveApi, LiveState

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

GAUGE, COUNTER, HISTOGRAM = "gauge", "counter", "histogram"
METRICS: Mapping[str, tuple[str, str, tuple[str, ...]]] = {
    "kafka_consumergroup_members": (GAUGE, "Members of the group that were seen.", ("consumergroup",)),
    "kafka_consumergroup_current_offset": (
        GAUGE,
        "Latest committed offset that was seen.",
        ("consumergroup", "topic", "partition"),
    ),
    "kafka_consumergroup_lag": (
        GAUGE,
        "Latest high watermark that was seen, less the committed offset.",
        ("consumergroup", "topic", "partition"),
    ),
    "kafka_consumergroup_current_offset_sum": (
        GAUGE,
        "Sum of the latest committed offsets of the topic.",
        ("consumergroup", "topic"),
    ),
    "kafka_consumergroup_lag_sum": (
        GAUGE,
        "Lag of all partitions of the topic.",
        ("consumergroup", "topic"),
    ),
    "kafka_topic_partition_current_offset": (GAUGE, "Latest high watermark that was seen.", ("topic", "partition")),
    "kwire_group_generation": (GAUGE, "Generation or epoch of the group.", ("consumergroup", "protocol")),
    "kwire_group_rebalances_total": (COUNTER, "Changes of the generation.", ("consumergroup",)),
    "kwire_group_refused_commits_total": (COUNTER, "Commits with an error.", ("consumergroup",)),
    "kwire_requests_total": (COUNTER, "Requests by API.", ("api",)),
    "kwire_errors_total": (COUNTER, "Error codes in responses by API.", ("api", "error")),
    "kwire_request_duration_seconds": (HISTOGRAM, "Time from request to response by API.", ("api",)),
    "kwire_connections_ended_total": (COUNTER, "Connections that were closed or expired.", ()),
    "kwire_problems_total": (COUNTER, "Damaged places in the capture.", ()),
    "kwire_packets_lost_total": (COUNTER, "Packets that were lost at the interface.", ()),
}
"""Type, meaning and labels of each metric by name."""

Sample = tuple[str, tuple[object, ...], float]  # name, values of the labels, value


def text(state: LiveState) -> str:
    """Return all metrics as text."""
    by_name: dict[str, list[str]] = {name: [] for name in METRICS}
    for name, labels, value in _samples(state):
        by_name[name].append(_line(name, zip(METRICS[name][2], labels, strict=True), value))
    for api, calls in _requested(state):
        by_name["kwire_request_duration_seconds"] += _histogram(api, calls.buckets, calls.seconds, calls.responses)
    lines: list[str] = []
    for name, (kind, meaning, _) in METRICS.items():
        lines += [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}", *by_name[name]]
    return "\n".join(lines) + "\n"


def _samples(state: LiveState) -> Iterator[Sample]:
    for name, group in sorted(state.groups.items()):
        yield "kafka_consumergroup_members", (name,), len(group.members)
        offsets: Counter[str] = Counter()
        lags: Counter[str] = Counter()
        for topic, partition, offset, lag in state.lags(group):
            yield "kafka_consumergroup_current_offset", (name, topic, partition), offset
            offsets[topic] += offset
            if lag is not None:
                yield "kafka_consumergroup_lag", (name, topic, partition), lag
                lags[topic] += lag
        for topic, total in offsets.items():
            yield "kafka_consumergroup_current_offset_sum", (name, topic), total
        for topic, total in lags.items():
            yield "kafka_consumergroup_lag_sum", (name, topic), total
        if group.generation is not None:
            yield "kwire_group_generation", (name, group.protocol or ""), group.generation
        yield "kwire_group_rebalances_total", (name,), group.rebalances
        yield "kwire_group_refused_commits_total", (name,), group.refused
    for (topic, partition), (offset, _) in sorted(state.ends.items()):
        yield "kafka_topic_partition_current_offset", (topic, partition), offset
    for api, calls in _requested(state):
        yield "kwire_requests_total", (api,), calls.requests
    for (api, error), count in sorted(state.errors.items()):
        yield "kwire_errors_total", (api, error), count
    yield "kwire_connections_ended_total", (), state.connections
    yield "kwire_problems_total", (), state.problems
    yield "kwire_packets_lost_total", (), state.lost


def _requested(state: LiveState) -> Iterator[tuple[str, LiveApi]]:
    """Yield the calls of each API with requests, sorted by API.

    A capture may also contain responses to requests that it lacks.
    """
    for api, calls in sorted(state.apis.items()):
        if calls.requests:
            yield api, calls


def _histogram(api: str, buckets: Mapping[int, int], seconds: float, count: int) -> Iterator[str]:
    name = "kwire_request_duration_seconds"
    counts = accumulate(buckets.get(place, 0) for place in range(len(BUCKETS_S)))
    for limit, below in zip(BUCKETS_S, counts, strict=True):
        yield _line(f"{name}_bucket", [("api", api), ("le", limit)], below)
    yield _line(f"{name}_bucket", [("api", api), ("le", "+Inf")], count)
    yield _line(f"{name}_sum", [("api", api)], seconds)
    yield _line(f"{name}_count", [("api", api)], count)


def _line(name: str, labels: Iterable[tuple[str, object]], value: float) -> str:
    shown = ",".join(f'{label}="{_escaped(str(content))}"' for label, content in labels)
    number = f"{value:.6f}" if isinstance(value, float) else str(value)
    return f"{name}{{{shown}}} {number}" if shown else f"{name} {number}"


def _escaped(content: str) -> str:
    plain = content.encode("utf-8", "backslashreplace").decode()
    return plain.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
