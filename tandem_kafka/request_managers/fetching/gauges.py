"""The gauges of a partition that is fetched: lag, lead and preferred replica."""

from __future__ import annotations

import math

from tandem_kafka.metrics import Gauge
from tandem_kafka.shared.subscription import SubscriptionState
from tandem_kafka.types import TopicPartition


def partition_gauges(subscription: SubscriptionState, tp: TopicPartition) -> dict[str, Gauge]:
    """Return the gauges of one partition; an unknown value is NaN."""

    def distance(from_: str, to: str) -> float:
        state = subscription.assigned.get(tp)
        position = state.position if state is not None else None
        edges = {
            "end": state.high_watermark if state is not None else -1,
            "start": state.log_start_offset if state is not None else -1,
            "position": position.offset if position is not None else -1,
        }
        known = edges[from_] >= 0 and edges[to] >= 0
        return float(edges[to] - edges[from_]) if known else math.nan

    def replica() -> float:
        state = subscription.assigned.get(tp)
        preferred = state.preferred_replica if state is not None else None
        return preferred.node_id if preferred is not None else -1

    return {
        "records-lag": lambda: distance("position", "end"),
        "records-lead": lambda: distance("start", "position"),
        "preferred-read-replica": replica,
    }
