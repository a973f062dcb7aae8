"""Signals that end a run: what the program had installed is there again afterwards."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from tandem_kafka.runtime.signals import handled_in_loop, handled_signals

pytestmark = pytest.mark.real_time

SIGNAL = signal.SIGUSR1


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    before = signal.getsignal(SIGNAL)
    yield
    signal.signal(SIGNAL, before)


@pytest.fixture(params=["asyncio", "uvloop"])
def in_loop(request: pytest.FixtureRequest) -> Callable[[Coroutine[Any, Any, None]], None]:
    factory = None
    if request.param == "uvloop":
        factory = pytest.importorskip("uvloop").new_event_loop

    def run(main: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(main)

    return run


async def told(heard: list[str]) -> list[str]:
    """Raise the signal, and return who has heard it."""
    heard.clear()
    signal.raise_signal(SIGNAL)
    for _ in range(1_000):
        await asyncio.sleep(0.001)
        if heard:
            break
    return list(heard)


@pytest.mark.parametrize("how", ["loop", "signal"])
def test_a_run_in_a_loop_gives_the_handler_back(in_loop: Any, how: str) -> None:
    async def main() -> None:
        heard: list[str] = []
        if how == "loop":
            asyncio.get_running_loop().add_signal_handler(SIGNAL, heard.append, "program")
        else:
            signal.signal(SIGNAL, lambda *_: heard.append("program"))
        for _ in range(2):
            with handled_in_loop([SIGNAL], lambda: heard.append("run")):
                assert await told(heard) == ["run"]
            assert await told(heard) == ["program"]

    in_loop(main())


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
@pytest.mark.parametrize("installed", [True, False])
def test_two_runs_in_one_loop_both_end(
    in_loop: Any, order: tuple[int, int], installed: bool
) -> None:
    async def main() -> None:
        heard: list[str] = []
        if installed:
            asyncio.get_running_loop().add_signal_handler(SIGNAL, heard.append, "program")
        before = signal.getsignal(SIGNAL)
        runs = [handled_in_loop([SIGNAL], lambda n=n: heard.append(str(n))) for n in range(2)]  # type: ignore[misc]
        for run in runs:
            run.__enter__()
        assert await told(heard) == ["0", "1"]
        first, last = order
        runs[first].__exit__(None, None, None)
        assert await told(heard) == [str(last)]
        runs[last].__exit__(None, None, None)
        assert signal.getsignal(SIGNAL) == before
        if installed:
            assert await told(heard) == ["program"]

    in_loop(main())


def test_a_run_on_a_thread_gives_the_handler_back() -> None:
    heard: list[str] = []
    signal.signal(SIGNAL, lambda *_: heard.append("program"))
    with handled_signals([SIGNAL], lambda: heard.append("run")):
        signal.raise_signal(SIGNAL)
    signal.raise_signal(SIGNAL)
    assert heard == ["run", "program"]
