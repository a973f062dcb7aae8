"""The start of a consumer for asyncio, and what is done without one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, Self

from tandem_kafka.config import Config
from tandem_kafka.consumer.aio.tasks import Tasks, running_loop
from tandem_kafka.consumer.closing import stop_unclosed
from tandem_kafka.consumer.concurrent_calls import part_of_consumers
from tandem_kafka.engine import assembly  # noqa: F401 - at the start, the event loop would wait
from tandem_kafka.errors import IllegalStateError
from tandem_kafka.runtime import Runtime

if TYPE_CHECKING:
    from tandem_kafka.consumer.health import Health

_MADE_AT_START = frozenset(("_commits", "_core", "_loop", "_parts", "_reading"))


@part_of_consumers
class Startable:
    """A part of ``AsyncKafkaConsumer`` and of ``AsyncShareConsumer``."""

    _config: Config
    _tasks: Tasks
    _environment: tuple[Runtime | None, Any] = (None, None)
    _started = False

    def _run_in(self, runtime: Runtime, transport: Any) -> None:
        """Replace the system's clock, threads and sockets, before the start."""
        self._environment = runtime, transport

    if not TYPE_CHECKING:  # a type checker would accept every name

        def __getattr__(self, name: str) -> NoReturn:
            """Explain why a part is missing."""
            if name in _MADE_AT_START:
                raise IllegalStateError(self._why_not_running())
            msg = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(msg, name=name, obj=self)

    def _why_not_running(self) -> str:
        if self._started:
            return "the consumer failed to start or was closed before; create another one"
        return (
            "the consumer has not been started; use `async with consumer:` or "
            "`await consumer.start()`"
        )

    def health(self) -> Health:
        """Return what this consumer does, what it waits for, and what is wrong.

        Any thread may call this, also before the start. It never waits.

        .. versionadded:: 0.10
        """
        if "_core" in self.__dict__:
            found: Health = super().health()  # type: ignore[misc] # of the other consumers
            return found
        from tandem_kafka.consumer.health import health_without_start  # noqa: PLC0415 - few ask

        why = self._why_not_running()
        return health_without_start(self._config, why, alive=not self._started)

    async def start(self) -> None:
        """Contact the cluster and subscribe, bound to the running event loop.

        ``async with`` does this, and closes the consumer at its end.

        Raises:
            IllegalStateError: No asyncio event loop is running, or the consumer was started or
                closed before.
            KafkaTimeoutError: No bootstrap server responded within ``bootstrap_timeout_ms``.
            NetworkThreadError: The system cannot start another thread.
            KafkaError: The cluster rejected the connection, for example because authentication
                failed.
        """
        loop = running_loop()
        if self._started:
            msg = "the consumer was started or closed before; create another one"
            raise IllegalStateError(msg)
        self._started = True
        given, transport = self._environment
        runtime = given or Runtime.threaded()
        self._tasks = Tasks(runtime.clock, runtime.driver, loop)
        await self._start(runtime, self._tasks, transport)

    async def _start(self, runtime: Runtime, tasks: Tasks, transport: Any) -> None:
        """Make the parts, and begin."""
        raise NotImplementedError

    def _ready_to_close(self) -> bool:
        """Tell whether there is something to close; a consumer that never started never will."""
        self._started = True
        return "_parts" in self.__dict__

    async def __aenter__(self) -> Self:
        """Start the consumer and return it; the end of the block closes it."""
        await self.start()
        return self

    def __del__(self) -> None:
        """Warn that the consumer was never closed; stop its thread without a commit."""
        if stop_unclosed(self, self.__dict__.get("_core")):
            self._tasks.abandon()
