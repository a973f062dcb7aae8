"""The JSON document for `stats_cb`, with the structure of librdkafka's and the known values."""

from __future__ import annotations

import json
from typing import Any

from confluent_kafka import OFFSET_INVALID

from tandem_kafka.confluent.offsets import StoredOffsets
from tandem_kafka.confluent.partitions import Part
from tandem_kafka.confluent.rebalancing import Rebalances
from tandem_kafka.confluent.shared import Shared
from tandem_kafka.errors import KafkaError
from tandem_kafka.types import OffsetAndMetadata


class Statistics:
    """Makes the document for `stats_cb` every `statistics.interval.ms`."""

    def __init__(self, shared: Shared, assignment: Rebalances, offsets: StoredOffsets) -> None:
        self._kafka, self._assigned, self._clock = shared.kafka, shared.assigned, shared.clock
        self._assignment, self._offsets = assignment, offsets
        settings = shared.settings
        self.callback = settings.callbacks.get("stats_cb")
        self._interval_ms = settings.get("statistics.interval.ms", 0)
        self._began_ms = self._clock.now_ms()
        self._next_ms = self._began_ms + self._interval_ms

    def due(self, now_ms: int) -> bool:
        """Return whether the callback is due, and schedule the next call."""
        if self.callback is None or not self._interval_ms or now_ms < self._next_ms:
            return False
        self._next_ms = now_ms + self._interval_ms
        return True

    def document(self) -> str:
        """Return the current statistics."""
        now_ms = self._clock.now_ms()
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
                "ts": now_ms * 1000,
                "time": self._clock.wall_ms() // 1000,
                "age": (now_ms - self._began_ms) * 1000,
                "brokers": {},
                "topics": topics,
                "cgrp": self._group(now_ms),
            }
        )

    def _partition(self, part: Part) -> dict[str, Any]:
        position, stored = part.position, self._offsets.stored(part)
        try:
            high = self._kafka.highwater(part.tp)
        except KafkaError:
            high = None
        app, kept, end = (
            _number(position),
            _number(stored),
            OFFSET_INVALID if high is None else high,
        )
        return {
            "partition": part.tp.partition,
            "fetch_state": "active" if not part.inactive else "stopped",
            "app_offset": app,
            "stored_offset": kept,
            "committed_offset": _number(part.committed),
            "eof_offset": part.eof_at,
            "lo_offset": OFFSET_INVALID if part.low is None else part.low,
            "hi_offset": end,
            "ls_offset": end,
            "consumer_lag": max(0, end - app) if min(end, app) >= 0 else -1,
            "consumer_lag_stored": max(0, end - kept) if min(end, kept) >= 0 else -1,
        }

    def _group(self, now_ms: int) -> dict[str, Any]:
        member = self._kafka.group_metadata().generation_id >= 0
        return {
            "state": "up" if self._kafka.bootstrap_connected() else "init",
            "join_state": "steady" if member else "init",
            "rebalance_age": now_ms - self._assignment.rebalanced_ms,
            "rebalance_cnt": self._assignment.rebalances,
            "rebalance_reason": "",
            "assignment_size": len(self._assigned.parts),
        }


def _number(offset: OffsetAndMetadata | None) -> int:
    return OFFSET_INVALID if offset is None else offset.offset
