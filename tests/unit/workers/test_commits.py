"""Commits in the background: a failed one is repeated, whatever else happens."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from tandem_kafka.errors import KafkaError
from tandem_kafka.runtime.callers import run
from tandem_kafka.types import (
    NO_TOPIC_ID,
    OffsetAndMetadata,
    PositionStart,
    TopicPartition,
)
from tandem_kafka.workers.assignment import WorkedPartition
from tandem_kafka.workers.commits import WorkerCommits
from tandem_kafka.workers.workload import Workload
from tandem_kafka_testing.clock import SimClock

TP = TopicPartition("orders", 0)


class Port:
    """Notes the commits; the test ends them."""

    def __init__(self) -> None:
        self.begun: list[tuple[int, Callable[[Exception | None], None]]] = []

    async def begin_commit(self, offsets: Any, done: Callable[[Exception | None], None]) -> None:
        self.begun.append((offsets[TP].offset, done))

    def topic_id(self, _: str) -> UUID:
        return NO_TOPIC_ID


def test_what_a_failed_commit_had_is_committed_again() -> None:
    clock, port = SimClock(), Port()
    part = WorkedPartition(TP, 4_096)
    state: Any = SimpleNamespace(parts={TP: part}, lock=nullcontext())
    state.snapshots = lambda tps, *, final: Workload.snapshots(state, tps, final=final)
    commits = WorkerCommits(port, state, clock, 1_000)  # type: ignore[arg-type]

    def after_a_second() -> None:
        clock.advance_to(clock.now_ms() + 1_000)
        run(commits.begin_if_due())
        assert commits.next_ms > clock.now_ms(), "or the loop polls without a wait"

    task: Any = None
    part.offsets.begin(PositionStart(0), OffsetAndMetadata(0, "", -1))
    part.offsets.add(0, 0, task)
    part.offsets.finish(0)
    after_a_second()
    after_a_second()
    assert [offset for offset, _ in port.begun] == [1], "one at a time"
    port.begun[0][1](KafkaError("no coordinator"))
    after_a_second()
    assert [offset for offset, _ in port.begun] == [1, 1]
    port.begun[1][1](None)
    after_a_second()
    assert len(port.begun) == 2, "nothing has changed"
