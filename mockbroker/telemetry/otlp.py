"""The metrics that clients push, decoded from OTLP (opentelemetry.proto.metrics.v1.MetricsData).

This module needs the pip extra ``telemetry``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from math import isfinite
from typing import Any

MAX_DECODED = 1 << 20  # bytes; larger metrics are not decoded, so that no request takes long
MAX_METRICS = 10_000  # metrics, scopes and resources of one push that are read; a client can send a million empty ones
MAX_POINTS = 200  # data points of one push that are kept, because the journal keeps many pushes
MAX_LABELS = 20  # labels of a data point or a resource that are kept
MAX_CHARACTERS = 1 << 16  # of all names and labels of one push that are kept
LONGEST = 500  # characters of a name or a label


def decode(data: bytes) -> Mapping[str, Any]:
    """Return the metrics that a client pushed as a JSON object with the keys ``resource``, ``points`` and ``metrics``.

    ``resource`` contains the labels of the client itself. ``points`` is the number of data points. ``metrics`` contains
    the data points by metric name; a data point is an object with its value and its attributes: ``{"consumer.x":
    [{"value": 1.0, "topic": "t"}]}``. Data points beyond the limits MAX_METRICS, MAX_POINTS and MAX_CHARACTERS are left
    out.

    Args:
        data: the decompressed metrics.

    Raises:
        ModuleNotFoundError: The package opentelemetry-proto is not installed.
        ValueError: The bytes are not OTLP metrics, or there are more than MAX_DECODED bytes.
    """
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

    if len(data) > MAX_DECODED:
        raise ValueError(f"the metrics have {len(data)} bytes, above the limit of {MAX_DECODED}")
    try:
        decoded = MetricsData.FromString(data)
    except DecodeError as error:
        raise ValueError(f"the metrics are not OTLP: {error}") from error
    metrics: dict[str, list[dict[str, Any]]] = {}
    read, remaining = list(islice(_metrics(decoded), MAX_METRICS)), MAX_CHARACTERS
    for name, point in islice(((name, point) for name, points in read for point in points), MAX_POINTS):
        labels = _labels(point.attributes)
        remaining -= len(name) + sum(len(key) + len(value or "") for key, value in labels.items())
        if remaining < 0:
            break
        metrics.setdefault(name, []).append({"value": _value(point), **labels})
    resources = (each.resource.attributes for each in decoded.resource_metrics[:1])
    return {
        "resource": _labels(next(resources, ())),
        "points": sum(len(points) for _, points in read),
        "metrics": metrics,
    }


def _metrics(decoded: Any) -> Iterator[tuple[str, Any]]:
    """Yield the name and the data points of each metric. The Java client sends a resource for each metric.

    At most MAX_METRICS resources and scopes are read. A name is cut after LONGEST characters. A metric without data has
    no data points.

    ``decoded``: the decoded MetricsData message.
    """
    scopes = (scope for resource in decoded.resource_metrics[:MAX_METRICS] for scope in resource.scope_metrics)
    for scope in islice(scopes, MAX_METRICS):
        for metric in scope.metrics:
            kind = metric.WhichOneof("data")
            yield metric.name[:LONGEST], getattr(metric, kind).data_points if kind else ()


def _value(point: Any) -> Any:
    """Return the value of a data point.

    Returns:
        The number of a gauge or sum, None without a value; a dictionary with the count and the sum of a histogram or
        summary.
    """
    if "count" in point.DESCRIPTOR.fields_by_name:
        return {"count": point.count, "sum": _number(point.sum)}
    kind = point.WhichOneof("value")
    return None if kind is None else _number(getattr(point, kind))


def _number(value: float) -> float | str:
    """Return a number that JSON can represent; NaN and infinity are returned as text."""
    return value if isfinite(value) else str(value)


def _labels(attributes: Iterable[Any]) -> dict[str, str | None]:
    labels: dict[str, str | None] = {}
    for each in islice(attributes, MAX_LABELS):
        kind = each.value.WhichOneof("value")
        labels[each.key[:LONGEST]] = None if kind is None else str(getattr(each.value, kind))[:LONGEST]
    return labels
