"""The table of sensors: their groups, statistics and writers.

Names are those of kafka-python and the Java client.
"""

from __future__ import annotations

import tandem_kafka.runtime.kafka_python  # noqa: F401 - before any module of kafka-python

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from kafka.metrics.stats.rate import TimeUnit

from tandem_kafka.metrics.statistics import (
    Avg,
    Max,
    Occurrences,
    Total,
    occurrence_rate,
    rate,
)

FETCH: Final = "fetch-manager-metrics"
COORDINATOR: Final = "coordinator-metrics"
CONSUMER: Final = "metrics"
NODE: Final = "node-metrics"


def _per_hour() -> Any:
    return occurrence_rate(TimeUnit.HOURS)


class SensorDefinition(NamedTuple):
    """A measurement, and the metrics that are made of it.

    Attributes:
        writer: The thread that records it.
        group: The group of its metrics.
        statistics: What makes each metric, by its name.
        meaning: What is measured.
    """

    writer: str
    group: str
    statistics: Mapping[str, Callable[[], Any]]
    meaning: str


class AgeDefinition(NamedTuple):
    """A gauge of the seconds since an event, -1 before the first.

    Attributes:
        writer: The thread that notes the event.
        group: The group of the gauge.
        meaning: What it shows.
    """

    writer: str
    group: str
    meaning: str


def _spread(name: str) -> dict[str, Callable[[], Any]]:
    return {f"{name}-avg": Avg, f"{name}-max": Max}


def _occurrences(name: str) -> dict[str, Callable[[], Any]]:
    return {f"{name}-rate": occurrence_rate, f"{name}-total": Occurrences}


def _sum(name: str) -> dict[str, Callable[[], Any]]:
    return {f"{name}-rate": rate, f"{name}-total": Total}


#: The sensors by name.
SENSORS: Final[Mapping[str, SensorDefinition]] = {
    "fetch-latency": SensorDefinition(
        "network", FETCH, _spread("fetch-latency") | _occurrences("fetch"),
        "time until a fetch response, in ms",
    ),
    "fetch-size": SensorDefinition(
        "network", FETCH, _spread("fetch-size") | _sum("bytes-consumed"),
        "bytes of records in a fetch response",
    ),
    "fetch-throttle-time": SensorDefinition(
        "network", FETCH, _spread("fetch-throttle-time"),
        "time for which a broker throttles fetches, in ms",
    ),
    "records": SensorDefinition(
        "application", FETCH, {"records-per-request-avg": Avg} | _sum("records-consumed"),
        "records returned by a poll()",
    ),
    "records-dropped": SensorDefinition(
        "application", FETCH, {"records-dropped-total": Total},
        "records that a decoder of poll_arrow() has left out",
    ),
    "records-lag": SensorDefinition(
        "application", FETCH, {"records-lag-max": Max},
        "lag of a partition in records, after a poll() that returned some of its records",
    ),
    "commit-latency": SensorDefinition(
        "network", COORDINATOR, _spread("commit-latency") | _occurrences("commit"),
        "time until the response to a commit, in ms",
    ),
    "heartbeat-latency": SensorDefinition(
        "network", COORDINATOR,
        {"heartbeat-response-time-max": Max} | _occurrences("heartbeat"),
        "time until the response to a heartbeat, in ms",
    ),
    "join-latency": SensorDefinition(
        "network", COORDINATOR, _spread("join-time") | _occurrences("join"),
        "time until a JoinGroup response, in ms",
    ),
    "sync-latency": SensorDefinition(
        "network", COORDINATOR, _spread("sync-time") | _occurrences("sync"),
        "time until a SyncGroup response, in ms",
    ),
    "rebalance-latency": SensorDefinition(
        "network", COORDINATOR,
        _spread("rebalance-latency") | {
            "rebalance-latency-total": Total,
            "rebalance-total": Occurrences,
            "rebalance-rate-per-hour": _per_hour,
        },
        "time from the start of a rebalance until on_partitions_assigned returned, in ms",
    ),
    "failed-rebalance": SensorDefinition(
        "network", COORDINATOR,
        {"failed-rebalance-total": Occurrences, "failed-rebalance-rate-per-hour": _per_hour},
        "rebalances that failed",
    ),
    **{
        f"partition-{each}-latency": SensorDefinition(
            "application", COORDINATOR, _spread(f"partition-{each}-latency"),
            f"duration of on_partitions_{each}, in ms",
        )
        for each in ("assigned", "revoked", "lost")
    },
    "connections-created": SensorDefinition(
        "network", CONSUMER, {"connection-creation-rate": occurrence_rate}, "connections opened"
    ),
    "connections-closed": SensorDefinition(
        "network", CONSUMER, {"connection-close-rate": occurrence_rate}, "connections closed"
    ),
    "time-between-poll": SensorDefinition(
        "application", CONSUMER, _spread("time-between-poll"),
        "time between two calls of poll(), in ms",
    ),
    "poll-idle": SensorDefinition(
        "application", CONSUMER, {"poll-idle-ratio-avg": Avg},
        "share of time that the application spends waiting in poll()",
    ),
}  # fmt: skip


def _of_locks(name: str, meaning: str) -> SensorDefinition:
    return SensorDefinition("network", FETCH, _sum(name), meaning)


#: The sensors of a share consumer by name.
SHARE_SENSORS: Final[Mapping[str, SensorDefinition]] = {
    **{
        name: SENSORS[name]
        for name in (
            "fetch-latency", "fetch-size", "fetch-throttle-time", "records-dropped",
            "heartbeat-latency", "connections-created", "connections-closed",
            "time-between-poll", "poll-idle",
        )
    },
    "assignment": SensorDefinition(
        "network", COORDINATOR,
        {"rebalance-total": Occurrences, "rebalance-rate-per-hour": _per_hour},
        "assignments that the coordinator has sent",
    ),
    "acquired": SensorDefinition(
        "network", FETCH, _spread("records-per-request") | _sum("records-fetched"),
        "records that a fetch has locked",
    ),
    "acknowledgements": _of_locks(
        "acknowledgements-send", "acknowledged records, as sent to brokers"
    ),
    "acknowledgement-errors": _of_locks(
        "acknowledgements-error", "acknowledged records that a broker has not stored"
    ),
    "accepted": _of_locks("records-accepted", "records accepted, as stored by brokers"),
    "released": _of_locks("records-released", "records released, also unused ones"),
    "rejected": _of_locks("records-rejected", "records rejected, as stored by brokers"),
    "locks-renewed": _of_locks("locks-renewed", "locks renewed"),
    "locks-lost": _of_locks(
        "locks-lost", "records that the application had, and that are delivered again"
    ),
    "record-held": SensorDefinition(
        "network", FETCH, _spread("record-held-time"),
        "time from poll() to the acknowledgement of a record, in ms",
    ),
}  # fmt: skip


#: Traffic on connections: statistics by metric name, and their meaning. The group `CONSUMER` has
#: the totals, `NODE` the values of each broker. Writer: the network thread.
TRAFFIC: Final[Mapping[str, tuple[Mapping[str, Callable[[], Any]], str]]] = {
    "bytes-sent": (
        {"outgoing-byte-rate": rate, "request-rate": occurrence_rate} | _spread("request-size"),
        "bytes of requests",
    ),
    "bytes-received": (
        {"incoming-byte-rate": rate, "response-rate": occurrence_rate},
        "bytes of responses",
    ),
    "request-latency": (_spread("request-latency"), "time until a response, in ms"),
    "throttle-time": (
        _spread("throttle-time"), "time for which a broker throttles this client, in ms"
    ),
}  # fmt: skip

#: Requests and responses together; totals only.
OPERATIONS: Final[Mapping[str, Callable[[], Any]]] = {"network-io-rate": occurrence_rate}


#: The gauges by name.
AGES: Final[Mapping[str, AgeDefinition]] = {
    "last-heartbeat-seconds-ago": AgeDefinition(
        "network", COORDINATOR, "seconds since the last heartbeat was sent"
    ),
    "last-heartbeat-accepted-seconds-ago": AgeDefinition(
        "network", COORDINATOR, "seconds since the coordinator accepted a heartbeat"
    ),
    "last-fetch-seconds-ago": AgeDefinition(
        "network", FETCH, "seconds since a broker accepted a fetch"
    ),
    "last-commit-seconds-ago": AgeDefinition(
        "network", COORDINATOR, "seconds since the last commit"
    ),
    "last-rebalance-seconds-ago": AgeDefinition(
        "network", COORDINATOR, "seconds since the last successful rebalance"
    ),
}

#: Those of a share consumer.
SHARE_AGES: Final = {name: age for name, age in AGES.items() if name != "last-commit-seconds-ago"}
