"""Decoding of pushed metrics. Metrics of real clients: tests/interop/test_telemetry.py."""

from __future__ import annotations

import pytest

from mockbroker.telemetry import otlp

metrics_pb2 = pytest.importorskip("opentelemetry.proto.metrics.v1.metrics_pb2", reason="needs opentelemetry-proto")


def pushed(points: int = 1) -> bytes:
    data = metrics_pb2.MetricsData()
    resource = data.resource_metrics.add()
    label = resource.resource.attributes.add(key="client_rack")
    label.value.string_value = "r"
    scope = resource.scope_metrics.add()
    scope.metrics.add(name="empty")
    gauge = scope.metrics.add(name="a.rate").gauge
    for number in range(points):
        point = gauge.data_points.add(as_double=number)
        point.attributes.add(key="topic").value.string_value = "t"
    scope.metrics.add(name="a.total").sum.data_points.add(as_int=5)
    scope.metrics.add(name="a.nothing").gauge.data_points.add(as_double=float("nan"))
    scope.metrics.add(name="a.histogram").histogram.data_points.add(count=3, sum=1.5)
    return bytes(data.SerializeToString())


def test_metrics_are_decoded() -> None:
    assert otlp.decode(pushed()) == {
        "resource": {"client_rack": "r"},
        "points": 4,
        "metrics": {
            "a.rate": [{"value": 0.0, "topic": "t"}],
            "a.total": [{"value": 5}],
            "a.nothing": [{"value": "nan"}],
            "a.histogram": [{"value": {"count": 3, "sum": 1.5}}],
        },
    }
    assert otlp.decode(b"") == {"resource": {}, "points": 0, "metrics": {}}


def test_only_the_first_data_points_are_kept() -> None:
    decoded = otlp.decode(pushed(points=500))
    assert decoded["points"] == 503
    assert sum(map(len, decoded["metrics"].values())) == otlp.MAX_POINTS


def test_each_metric_may_have_a_resource_of_its_own() -> None:
    """The pushes of the Java client have a resource for each metric."""
    data = metrics_pb2.MetricsData()
    for number in range(100):
        metric = data.resource_metrics.add().scope_metrics.add().metrics.add(name=f"a.{number}")
        metric.gauge.data_points.add(as_int=number)
    decoded = otlp.decode(data.SerializeToString())
    assert decoded["points"] == 100
    assert decoded["metrics"] == {f"a.{number}": [{"value": number}] for number in range(100)}


def test_other_bytes_are_an_error() -> None:
    with pytest.raises(ValueError, match="the metrics are not OTLP"):
        otlp.decode(b"\xff\xff")
    with pytest.raises(ValueError, match="the metrics have 1048577 bytes, above the limit of 1048576"):
        otlp.decode(bytes(otlp.MAX_DECODED + 1))


def test_long_labels_are_cut() -> None:
    data = metrics_pb2.MetricsData()
    gauge = data.resource_metrics.add().scope_metrics.add().metrics.add(name="a").gauge
    for _ in range(200):
        point = gauge.data_points.add(as_int=1)
        point.attributes.add(key="topic").value.string_value = "t" * 2_000
    points = otlp.decode(data.SerializeToString())["metrics"]["a"]
    assert len(points) == otlp.MAX_CHARACTERS // (otlp.LONGEST + len("a" + "topic"))
    assert {len(point["topic"]) for point in points} == {otlp.LONGEST}
