"""A wait of a task ends as soon as its condition holds, at whatever moment that begins."""

from __future__ import annotations

import pytest

from tandem_kafka_testing import Simulation


@pytest.mark.parametrize("look", [1, 2, 3, 4])
def test_what_changes_right_after_a_look_is_not_missed(look: int) -> None:
    """Other news wake the task in between; another thread changes the condition."""
    with Simulation() as simulation:

        async def run() -> None:
            async with simulation.async_consumer() as consumer:
                callers = consumer._core.callers
                looks = 0

                def ready() -> bool:
                    nonlocal looks
                    looks += 1
                    if looks == look:
                        callers.notify()
                    return looks > look

                for number in range(1, look - 1):
                    simulation.after(10 * number, callers.notify)
                began_ms = simulation.clock.now_ms()
                assert await callers.wait(ready, began_ms + 60_000)
                assert simulation.clock.now_ms() - began_ms < 1_000

        simulation.run(run())
