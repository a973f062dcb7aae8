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


#: The sensors by name.
SENSORS: Final[Mapping[str, SensorDefinition]] = {
    "fetch-latency": SensorDefinition(
        "network",
        FETCH,
        {
            "fetch-latency-avg": Avg,
            "fetch-latency-max": Max,
            "fetch-rate": occurrence_rate,
            "fetch-total": Occurrences,
        },
        "time until a fetch response, in ms",
    ),
    "fetch-size": SensorDefinition(
        "network",
        FETCH,
        {
            "fetch-size-avg": Avg,
            "fetch-size-max": Max,
            "bytes-consumed-rate": rate,
            "bytes-consumed-total": Total,
        },
        "bytes of records in a fetch response",
    ),
    "fetch-throttle-time": SensorDefinition(
        "network",
        FETCH,
        {"fetch-throttle-time-avg": Avg, "fetch-throttle-time-max": Max},
        "time for which a broker throttles fetches, in ms",
    ),
    "records": SensorDefinition(
        "application",
        FETCH,
        {
            "records-per-request-avg": Avg,
            "records-consumed-rate": rate,
            "records-consumed-total": Total,
        },
        "records returned by a poll()",
    ),
    "records-dropped": SensorDefinition(
        "application",
        FETCH,
        {"records-dropped-total": Total},
        "records that a decoder of poll_arrow() has left out",
    ),
    "records-lag": SensorDefinition(
        "application",
        FETCH,
        {"records-lag-max": Max},
        "lag of a partition in records, after a poll() that returned some of its records",
    ),
    "commit-latency": SensorDefinition(
        "network",
        COORDINATOR,
        {
            "commit-latency-avg": Avg,
            "commit-latency-max": Max,
            "commit-rate": occurrence_rate,
            "commit-total": Occurrences,
        },
        "time until the response to a commit, in ms",
    ),
    "heartbeat-latency": SensorDefinition(
        "network",
        COORDINATOR,
        {
            "heartbeat-response-time-max": Max,
            "heartbeat-rate": occurrence_rate,
            "heartbeat-total": Occurrences,
        },
        "time until the response to a heartbeat, in ms",
    ),
    "join-latency": SensorDefinition(
        "network",
        COORDINATOR,
        {
            "join-time-avg": Avg,
            "join-time-max": Max,
            "join-rate": occurrence_rate,
            "join-total": Occurrences,
        },
        "time until a JoinGroup response, in ms",
    ),
    "sync-latency": SensorDefinition(
        "network",
        COORDINATOR,
        {
            "sync-time-avg": Avg,
            "sync-time-max": Max,
            "sync-rate": occurrence_rate,
            "sync-total": Occurrences,
        },
        "time until a SyncGroup response, in ms",
    ),
    "rebalance-latency": SensorDefinition(
        "network",
        COORDINATOR,
        {
            "rebalance-latency-avg": Avg,
            "rebalance-latency-max": Max,
            "rebalance-latency-total": Total,
            "rebalance-total": Occurrences,
            "rebalance-rate-per-hour": _per_hour,
        },
        "time from the start of a rebalance until on_partitions_assigned returned, in ms",
    ),
    "failed-rebalance": SensorDefinition(
        "network",
        COORDINATOR,
        {
            "failed-rebalance-total": Occurrences,
            "failed-rebalance-rate-per-hour": _per_hour,
        },
        "rebalances that failed",
    ),
    "partition-assigned-latency": SensorDefinition(
        "application",
        COORDINATOR,
        {"partition-assigned-latency-avg": Avg, "partition-assigned-latency-max": Max},
        "duration of on_partitions_assigned, in ms",
    ),
    "partition-revoked-latency": SensorDefinition(
        "application",
        COORDINATOR,
        {"partition-revoked-latency-avg": Avg, "partition-revoked-latency-max": Max},
        "duration of on_partitions_revoked, in ms",
    ),
    "partition-lost-latency": SensorDefinition(
        "application",
        COORDINATOR,
        {"partition-lost-latency-avg": Avg, "partition-lost-latency-max": Max},
        "duration of on_partitions_lost, in ms",
    ),
    "connections-created": SensorDefinition(
        "network",
        CONSUMER,
        {"connection-creation-rate": occurrence_rate},
        "connections opened",
    ),
    "connections-closed": SensorDefinition(
        "network",
        CONSUMER,
        {"connection-close-rate": occurrence_rate},
        "connections closed",
    ),
    "time-between-poll": SensorDefinition(
        "application",
        CONSUMER,
        {"time-between-poll-avg": Avg, "time-between-poll-max": Max},
        "time between two calls of poll(), in ms",
    ),
    "poll-idle": SensorDefinition(
        "application",
        CONSUMER,
        {"poll-idle-ratio-avg": Avg},
        "share of time that the application spends waiting in poll()",
    ),
}


def _counted(writer: str, name: str, meaning: str) -> SensorDefinition:
    return SensorDefinition(writer, FETCH, {f"{name}-rate": rate, f"{name}-total": Total}, meaning)


#: The sensors of a share consumer by name.
SHARE_SENSORS: Final[Mapping[str, SensorDefinition]] = {
    **{
        name: SENSORS[name]
        for name in (
            "fetch-latency",
            "fetch-size",
            "fetch-throttle-time",
            "records-dropped",
            "heartbeat-latency",
            "connections-created",
            "connections-closed",
            "time-between-poll",
            "poll-idle",
        )
    },
    "assignment": SensorDefinition(
        "network",
        COORDINATOR,
        {"rebalance-total": Occurrences, "rebalance-rate-per-hour": _per_hour},
        "assignments that the coordinator has sent",
    ),
    "acquired": SensorDefinition(
        "network",
        FETCH,
        {
            "records-per-request-avg": Avg,
            "records-per-request-max": Max,
            "records-fetched-rate": rate,
            "records-fetched-total": Total,
        },
        "records that a fetch has locked",
    ),
    "acknowledgements": _counted(
        "network", "acknowledgements-send", "acknowledged records, as sent to brokers"
    ),
    "acknowledgement-errors": _counted(
        "network", "acknowledgements-error", "acknowledged records that a broker has not stored"
    ),
    "accepted": _counted("network", "records-accepted", "records accepted, as stored by brokers"),
    "released": _counted("network", "records-released", "records released, also unused ones"),
    "rejected": _counted("network", "records-rejected", "records rejected, as stored by brokers"),
    "locks-renewed": _counted("network", "locks-renewed", "locks renewed"),
    "locks-lost": _counted(
        "network", "locks-lost", "records that the application had, and that are delivered again"
    ),
    "record-held": SensorDefinition(
        "network",
        FETCH,
        {"record-held-time-avg": Avg, "record-held-time-max": Max},
        "time from poll() to the acknowledgement of a record, in ms",
    ),
}


#: Traffic on connections: statistics by metric name, and their meaning. The group `CONSUMER` has
#: the totals, `NODE` the values of each broker. Writer: the network thread.
TRAFFIC: Final[Mapping[str, tuple[Mapping[str, Callable[[], Any]], str]]] = {
    "bytes-sent": (
        {
            "outgoing-byte-rate": rate,
            "request-rate": occurrence_rate,
            "request-size-avg": Avg,
            "request-size-max": Max,
        },
        "bytes of requests",
    ),
    "bytes-received": (
        {"incoming-byte-rate": rate, "response-rate": occurrence_rate},
        "bytes of responses",
    ),
    "request-latency": (
        {"request-latency-avg": Avg, "request-latency-max": Max},
        "time until a response, in ms",
    ),
    "throttle-time": (
        {"throttle-time-avg": Avg, "throttle-time-max": Max},
        "time for which a broker throttles this client, in ms",
    ),
}

#: Requests and responses together; totals only.
OPERATIONS: Final[Mapping[str, Callable[[], Any]]] = {"network-io-rate": occurrence_rate}


#: The gauges by name.
AGES: Final[Mapping[str, AgeDefinition]] = {
    "last-heartbeat-seconds-ago": AgeDefinition(
        "network",
        COORDINATOR,
        "seconds since the last heartbeat was sent",
    ),
    "last-heartbeat-accepted-seconds-ago": AgeDefinition(
        "network",
        COORDINATOR,
        "seconds since the coordinator accepted a heartbeat",
    ),
    "last-fetch-seconds-ago": AgeDefinition(
        "network", FETCH, "seconds since a broker accepted a fetch"
    ),
    "last-commit-seconds-ago": AgeDefinition(
        "network", COORDINATOR, "seconds since the last commit"
    ),
    "last-rebalance-seconds-ago": AgeDefinition(
        "network",
        COORDINATOR,
        "seconds since the last successful rebalance",
    ),
}

#: Those of a share consumer.
SHARE_AGES: Final = {
    name: AGES[name]
    for name in (
        "last-heartbeat-seconds-ago",
        "last-heartbeat-accepted-seconds-ago",
        "last-fetch-seconds-ago",
        "last-rebalance-seconds-ago",
    )
}
