"""Lookups of commits: they neither delay polls for long nor hand out a record too early."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from tandem_kafka.errors import GroupAuthorizationFailedError, KafkaError, KafkaTimeoutError
from tandem_kafka.runtime import Random
from tandem_kafka.runtime.callers import run
from tandem_kafka.types import OffsetAndMetadata, TopicPartition
from tandem_kafka.workers.restoring import AT_ONCE_MS, Restoring
from tandem_kafka.workers.workload import Workload
from tandem_kafka_testing.clock import SimClock
from tests.unit.workers.test_workload import settings_of

TPS = [TopicPartition("orders", number) for number in range(20)]


class Port:
    """A coordinator that takes its time, or fails."""

    def __init__(self, clock: SimClock, took_ms: int) -> None:
        self.clock, self.took_ms = clock, took_ms
        self.error: KafkaError | None = None
        self.asked: list[TopicPartition] = []

    async def committed(self, tp: TopicPartition, timeout_ms: float) -> OffsetAndMetadata | None:
        assert self.took_ms < timeout_ms
        self.asked.append(tp)
        self.clock.advance_to(self.clock.now_ms() + self.took_ms)
        if self.error is not None:
            raise self.error
        return OffsetAndMetadata(7, "", -1)


def restoring(took_ms: int = 0) -> tuple[Restoring, Workload, Port, SimClock]:
    clock = SimClock()
    workload, port = (
        Workload(settings_of(1, "stop"), clock, Random(1), nullcontext()),
        Port(clock, took_ms),
    )
    workload.assign(TPS)
    return Restoring(port, workload, clock), workload, port, clock  # type: ignore[arg-type]


def test_a_slow_coordinator_does_not_keep_a_member_from_polling() -> None:
    """All lookups together may take longer than `max_poll_interval_ms`."""
    restores, workload, port, clock = restoring(took_ms=700)
    rounds = 0
    while restores.next_ms is not None:
        began_ms = clock.now_ms()
        run(restores.restore())
        assert clock.now_ms() - began_ms <= AT_ONCE_MS + port.took_ms
        rounds += 1
    assert rounds > 1
    assert port.asked == TPS, "each is looked up once"
    assert all(part.restored for part in workload.parts.values())


@pytest.mark.parametrize("error", [KafkaTimeoutError("slow"), GroupAuthorizationFailedError("no")])
def test_a_failed_lookup_is_repeated_if_that_can_help(error: KafkaError) -> None:
    restores, workload, port, clock = restoring()
    port.error = error
    if not error.retriable:
        with pytest.raises(GroupAuthorizationFailedError):
            run(restores.restore())
        return
    run(restores.restore())
    run(restores.restore())
    assert port.asked == TPS[:1], "there is a pause"
    assert not any(part.restored for part in workload.parts.values())
    assert restores.next_ms is not None
    assert restores.next_ms > clock.now_ms()
    port.error = None
    clock.advance_to(restores.next_ms)
    run(restores.restore())
    assert all(part.restored for part in workload.parts.values())
