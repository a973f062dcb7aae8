"""A simulated cluster on ports of this machine, served by a thread of the test."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TypeVar

from tandem_kafka.testing.cluster import SimCluster
from tandem_kafka.testing.loopback import LoopbackCluster

__all__ = ["Loopback"]

T = TypeVar("T")
TIMEOUT_S = 20


class Loopback:
    """A `LoopbackCluster` in a thread; as a context manager, it ends the thread."""

    def __init__(self, seed: object = 0, **options: Any) -> None:
        self._served = LoopbackCluster(seed, **options)
        self._loop = asyncio.new_event_loop()
        self._ready, self._end = threading.Event(), asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="loopback", daemon=True)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        async with self._served:
            self._ready.set()
            await self._end.wait()

    @property
    def bootstrap(self) -> str:
        """The value for `bootstrap_servers`."""
        return self._served.bootstrap

    def perform(self, action: Callable[[SimCluster], T]) -> T:
        """Use or change the cluster on its thread."""

        async def run() -> T:
            return self._served.perform(lambda: action(self._served.cluster))

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(TIMEOUT_S)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(TIMEOUT_S)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(TIMEOUT_S)
        assert not self._thread.is_alive()
