"""The clock of a consumer, shared with our consumer."""

from __future__ import annotations

from tandem_kafka.consumer.consumer import KafkaConsumer

__all__ = ["Time"]


class Time:
    """Reads the clock, and waits."""

    def __init__(self, kafka: KafkaConsumer) -> None:
        core = kafka._core
        self._driver = core.driver
        self._clock = core.clock
        self.now_ms = core.clock.now_ms

    def now_s(self) -> float:
        """Return seconds of a monotonic clock."""
        return self.now_ms() / 1000

    def wall_s(self) -> int:
        """Return seconds since the epoch."""
        return self._clock.wall_ms() // 1000

    def wait(self, seconds: float) -> None:
        """Wait for some seconds; Ctrl-C ends the wait."""
        self._driver.wait(lambda: False, self.now_ms() + int(seconds * 1000))
