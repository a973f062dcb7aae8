"""Encoded metrics are what OpenTelemetry's own classes read."""

from __future__ import annotations

import pytest

from tandem_kafka.request_managers.telemetry.otlp import Point, metrics_data

pb2 = pytest.importorskip("opentelemetry.proto.metrics.v1.metrics_pb2")


def test_resource_gauge_and_sums() -> None:
    wide = "ü" * 200
    data = metrics_data(
        {"group_id": "readers"},
        [
            Point("a.rate", -0.5, 1_764_000_000_000_000_000, {"topic": wide, "partition": "0"}),
            Point("a.total", 300.0, 7, {}, start_ns=5, delta=True),
            Point("b.total", 2.0**60, 7, {}, start_ns=5),
        ],
    )
    decoded = pb2.MetricsData.FromString(data)
    (resource,) = decoded.resource_metrics
    (group,) = resource.resource.attributes
    assert (group.key, group.value.string_value) == ("group_id", "readers")
    (scope,) = resource.scope_metrics
    gauge, delta, cumulative = scope.metrics
    (point,) = gauge.gauge.data_points
    assert (gauge.name, point.as_double) == ("a.rate", -0.5)
    assert point.time_unix_nano == 1_764_000_000_000_000_000
    assert {each.key: each.value.string_value for each in point.attributes} == {
        "topic": wide,
        "partition": "0",
    }
    (point,) = delta.sum.data_points
    assert (point.as_double, point.start_time_unix_nano, point.time_unix_nano) == (300.0, 5, 7)
    assert delta.sum.is_monotonic
    assert delta.sum.aggregation_temporality == pb2.AGGREGATION_TEMPORALITY_DELTA
    assert cumulative.sum.data_points[0].as_double == 2.0**60
    assert cumulative.sum.aggregation_temporality == pb2.AGGREGATION_TEMPORALITY_CUMULATIVE


def test_nothing_measured() -> None:
    decoded = pb2.MetricsData.FromString(metrics_data({}, []))
    assert [list(each.scope_metrics[0].metrics) for each in decoded.resource_metrics] == [[]]
