"""How tests wait for a condition, in real time or in that of a simulated cluster."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

from tandem_kafka.errors import KafkaError

__all__ = ["PATIENCE_S", "until", "wait_until", "while_running"]

#: Long enough for a slow machine; a passing test never waits that long.
PATIENCE_S = 120.0


def until(
    done: Callable[[], object],
    what: str | Callable[[], object] = "it",
    *,
    timeout_s: float = PATIENCE_S,
    now_s: Callable[[], float] = time.monotonic,
) -> Iterator[None]:
    """Yield until `done()`: the body of the loop is what happens meanwhile.

    Args:
        done: The condition.
        what: What did not happen, or a function that says how far it came.
        timeout_s: After that time the test fails.
        now_s: The clock, in seconds.
    """
    end_s = now_s() + timeout_s
    while not done():
        assert now_s() < end_s, (
            f"{what} did not happen in {timeout_s:.0f} s" if isinstance(what, str) else what()
        )
        yield


def wait_until(done: Callable[[], object], what: str | Callable[[], object] = "it") -> None:
    """Wait until `done()`, and do nothing meanwhile."""
    for _ in until(done, what):
        time.sleep(0.005)


def while_running(action: Callable[[], object], meanwhile: Callable[[], object]) -> None:
    """Do something on another thread, and something else on this one until that is done."""
    failures: list[BaseException] = []

    def act() -> None:
        try:
            action()
        except BaseException as error:  # noqa: BLE001 - raised by the caller's thread
            failures.append(error)

    thread = threading.Thread(target=act)
    thread.start()
    try:
        while thread.is_alive():
            try:
                meanwhile()
            except KafkaError as error:
                failures.append(error)
                break
    finally:
        thread.join()
    if failures:
        raise failures[0]
