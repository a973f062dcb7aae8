"""What `async for` iterates over."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Generic, NoReturn, Protocol, Self, TypeVar

from tandem_kafka.consumer.aio.tasks import Tasks, cancellations
from tandem_kafka.consumer.reading.iteration import Follow, Loop
from tandem_kafka.consumer.reading.publication import Publication
from tandem_kafka.consumer.reading.reading import Begun

if TYPE_CHECKING:
    from tandem_kafka._native import TaskCall

T = TypeVar("T")


class Feeding(Protocol):
    """Has the feeds of a loop."""

    def follow_ready(self, follow: Follow) -> bool:
        """Give the loop the next feed if it is at hand; wait for nothing."""
        ...


class FedLoop(Loop):
    """Returns records that are at hand, without waiting; it ends where a wait would begin."""

    def __init__(self, reading: Feeding) -> None:
        self._reading = reading

    @property
    def follow(self) -> Follow:
        """What gives this loop a feed."""
        return self._follow

    def _find_feed(self) -> None:
        if not self._reading.follow_ready(self.follow):
            raise StopIteration


async def usually(
    tasks: Tasks,
    begin: Callable[[bool], TaskCall | None] | None,
    read: Callable[[Begun | None], Awaitable[T]],
) -> T:
    """Read in the usual way, if that has one, or as `uncancelled` does.

    Args:
        tasks: The callers.
        begin: Begins the usual call. It is told whether the task was suspended.
        read: Reads in all cases. It goes on with a call that has begun, if there is one.
    """
    call = None
    if begin is not None:
        call = begin(False)
        if call is None:
            await asyncio.sleep(0)  # as in `uncancelled`
            call = begin(True)
    if call is None:
        return await uncancelled(lambda: read(None), suspended=begin is not None)
    begun = await tasks.complete(call)
    result: T | None = call.result
    if result is not None:
        return result

    def go_on() -> Awaitable[T]:
        nonlocal begun
        first, begun = begun, None
        return read(first)

    return await uncancelled(go_on, suspended=call.suspended)


async def uncancelled(read: Callable[[], Awaitable[T]], *, suspended: bool = False) -> T:
    """Let other tasks run, then read; read again if the user's code cancelled the task meanwhile.

    A deserializer, callback or interceptor may cancel the task that it runs in. asyncio drops the
    result of a task that ends before it has received its cancellation.

    Args:
        read: Reads.
        suspended: Whether the task has just let others run.
    """
    while True:
        if not suspended:
            await asyncio.sleep(0)  # receives a cancellation; also, records may always be at hand
        suspended = False
        requests = cancellations()
        found = await read()
        if cancellations() == requests:
            return found


class Stream(Generic[T]):
    """An asynchronous iterator over the results of a function, which returns None at the end.

    Unlike an asynchronous generator, it needs no task to close it if the loop is left early.
    """

    def __init__(self, read: Callable[[], Awaitable[tuple[T, Publication] | None]]) -> None:
        self._read = read

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        found = await uncancelled(self._read)
        if found is None:
            raise StopAsyncIteration
        result, publication = found
        publication.done = True  # as in `poll()`
        return result

    def __iter__(self) -> NoReturn:
        msg = "use `async for`, not `for`"
        raise TypeError(msg)
