"""Applications of share groups as there are: loops, polls, batches, jobs, slow at times."""

from __future__ import annotations

from typing import Any, Final

from tandem_kafka.runtime import Random
from tandem_kafka_testing.simulation import Simulation
from tests.scenarios.catalogue import Scenario
from tests.scenarios.share_ledger import ShareLedger
from tests.scenarios.share_members import ShareMember

__all__ = ["LOCK_MS", "SoakMember", "draw_soak_options"]

LOCK_MS: Final = 15_000
#: The longest that a handler takes.
_SLOWEST_MS: Final = 50_000
_WAYS: Final = ("loop", "loop", "poll", "arrow", "seldom", "job")


def draw_soak_options(random: Random, scenario: Scenario) -> dict[str, Any]:
    """Return the options of a member."""
    return {
        **scenario.options,
        "acknowledgement": random.choice(["implicit", "explicit"]),
        "renew": random.choice(["off", "auto", "auto"]),
        "max_processing_ms": 600_000,
        "max_poll_records": random.choice([1, 5, 500]),
        "max_poll_interval_ms": 300_000 if scenario.calm else random.choice([20_000, 300_000]),
        "fetch_max_wait_ms": random.choice([500, 3_000]),
    }


class SoakMember(ShareMember):
    """A member whose handlers take up to 50 seconds."""

    def __init__(
        self,
        simulation: Simulation,
        ledger: ShareLedger,
        number: int,
        topic: str,
        options: dict[str, Any],
    ) -> None:
        super().__init__(simulation, ledger, number, topic, options)
        random = self.random
        self._way = random.choice(_WAYS)
        self._slow_one_in = random.choice([1, 10, 50, 200])
        self._fast_ms = random.choice([0, 0, 1, 30])
        self._pause_ms = random.randint(100, 2 * LOCK_MS)
        self._next_ms = 0
        #: Explicit only: how many handlers run at a time.
        self._handlers = random.choice([1, 4, 20])
        #: A job only: for how many records it was started.
        self._left = random.randint(1, 4)
        self._note(f"is a {self._way}, slow for one record in {self._slow_one_in}")

    def step(self, timeout_ms: int, *, fails: bool) -> None:
        """Let handlers end, and get records if the application comes for them."""
        now_ms = self._clock.now_ms()
        if not self.quick:
            busy = now_ms < max(self.busy_until_ms, self._next_ms)
            if busy or len(self.work) >= self._handlers or self._left <= 0:
                self._end_work()
                self.ended = self._left <= 0 and not self.work and now_ms >= self.busy_until_ms
                return
            if self._way == "seldom":
                self._next_ms = now_ms + self._pause_ms
                timeout_ms = 0
        super().step(timeout_ms, fails=fails)

    def _get(self, timeout_ms: int) -> list[Any]:
        if self._way != "job" or self.quick:
            return super()._get(timeout_ms)
        found = self._poll(timeout_ms, max_records=1)
        self._left -= len(found)
        return found

    def _draw_duration_ms(self) -> int:
        slow = self.random.randrange(self._slow_one_in) == 0
        return self.random.randint(0, _SLOWEST_MS if slow else self._fast_ms)
