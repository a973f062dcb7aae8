"""What `async for` iterates over."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic, NoReturn, Self, TypeVar

from tandem_kafka.consumer.calls.reading import ReadingCalls
from tandem_kafka.consumer.iteration import Loop

__all__ = ["FedLoop", "Stream"]

T = TypeVar("T")


class FedLoop(Loop):
    """Returns records that are at hand, without waiting; it ends where a wait would begin."""

    def __init__(self, reading: ReadingCalls) -> None:
        self._reading = reading

    def _find_feed(self) -> None:
        if not self._reading.follow_ready(self._follow):
            raise StopIteration

    async def find_feed(self) -> bool:
        """Wait for the next record; return False if iteration ends."""
        return await self._reading.find_feed(self._follow)


class Stream(Generic[T]):
    """An asynchronous iterator over the results of a function, which returns None at the end.

    Unlike an asynchronous generator, it needs no task to close it if the loop is left early.
    """

    def __init__(self, following: Callable[[], Awaitable[T | None]]) -> None:
        self._following = following

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        found = await self._following()
        if found is None:
            raise StopAsyncIteration
        return found

    def __iter__(self) -> NoReturn:
        msg = "use `async for`, not `for`"
        raise TypeError(msg)
