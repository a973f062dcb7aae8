"""The JSON document for `stats_cb`, with the structure of librdkafka's and the known values."""

from __future__ import annotations

import json
from typing import Any

from tandem_kafka.confluent.configuration import Settings
from tandem_kafka.confluent.offsets import Offsets
from tandem_kafka.confluent.partitions import Assigned, Part
from tandem_kafka.confluent.rebalancing import Assignment
from tandem_kafka.confluent.values import OFFSET_INVALID
from tandem_kafka.confluent.waiting import Time
from tandem_kafka.consumer.consumer import KafkaConsumer
from tandem_kafka.errors import KafkaError

__all__ = ["Statistics"]


class Statistics:
    """Calls `stats_cb` every `statistics.interval.ms`."""

    def __init__(
        self,
        kafka: KafkaConsumer,
        assigned: Assigned,
        assignment: Assignment,
        offsets: Offsets,
        settings: Settings,
        time: Time,
    ) -> None:
        self._time = time
        self._kafka = kafka
        self._assigned = assigned
        self._assignment = assignment
        self._offsets = offsets
        self.callback = settings.callbacks.get("stats_cb")
        self._interval_s = settings.get("statistics.interval.ms", 0) / 1000
        self._began_s = self._time.now_s()
        self._next_s = self._began_s + self._interval_s

    def due(self, now_s: float) -> bool:
        """Return whether the callback is due, and schedule the next call."""
        if self.callback is None or not self._interval_s or now_s < self._next_s:
            return False
        self._next_s = now_s + self._interval_s
        return True

    def document(self) -> str:
        """Return the current statistics."""
        now_s = self._time.now_s()
        topics: dict[str, Any] = {}
        for part in self._assigned:
            topic, number = part.tp
            described = topics.setdefault(topic, {"topic": topic, "partitions": {}})
            described["partitions"][str(number)] = self._partition(part)
        client_id = self._kafka.config["client_id"]
        return json.dumps(
            {
                "name": f"{client_id}#consumer",
                "client_id": client_id,
                "type": "consumer",
                "ts": int(now_s * 1e6),
                "time": self._time.wall_s(),
                "age": int((now_s - self._began_s) * 1e6),
                "brokers": {},
                "topics": topics,
                "cgrp": self._group(now_s),
            }
        )

    def _partition(self, part: Part) -> dict[str, Any]:
        position, stored = part.position, self._offsets.stored(part)
        try:
            high = self._kafka.highwater(part.tp)
        except KafkaError:
            high = None
        app = OFFSET_INVALID if position is None else position.offset
        end = OFFSET_INVALID if high is None else high
        known = position is not None and high is not None
        return {
            "partition": part.tp.partition,
            "fetch_state": "active" if not part.inactive else "stopped",
            "app_offset": app,
            "stored_offset": OFFSET_INVALID if stored is None else stored.offset,
            "committed_offset": (
                OFFSET_INVALID if part.committed is None else part.committed.offset
            ),
            "eof_offset": part.eof_at,
            "lo_offset": OFFSET_INVALID if part.low is None else part.low,
            "hi_offset": end,
            "ls_offset": end,
            "consumer_lag": max(0, end - app) if known else -1,
            "consumer_lag_stored": (
                max(0, end - stored.offset) if stored is not None and high is not None else -1
            ),
        }

    def _group(self, now_s: float) -> dict[str, Any]:
        member = self._kafka.group_metadata().generation_id >= 0
        return {
            "state": "up" if self._kafka.bootstrap_connected() else "init",
            "join_state": "steady" if member else "init",
            "rebalance_age": int((now_s - self._assignment.rebalanced_s) * 1000),
            "rebalance_cnt": self._assignment.rebalances,
            "rebalance_reason": "",
            "assignment_size": len(self._assigned.parts),
        }
