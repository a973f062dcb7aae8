"""The parts between the public methods of a consumer and its network thread."""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tandem_kafka.config import Config
from tandem_kafka.consumer.background_events import BackgroundEvents
from tandem_kafka.consumer.closing import ConsumerClosing, Hook
from tandem_kafka.consumer.commits import Commits
from tandem_kafka.consumer.core import Core
from tandem_kafka.consumer.known_cores import remember, warn_of_namesake
from tandem_kafka.consumer.listener import ListenerCalls
from tandem_kafka.consumer.reading.deserializers import Deserializers
from tandem_kafka.consumer.reading.fetch_collector import FetchCollector
from tandem_kafka.consumer.reading.interceptors import Interceptors
from tandem_kafka.consumer.reading.poller import Poller
from tandem_kafka.consumer.reading.reading import Reading
from tandem_kafka.consumer.reporters import Reporters
from tandem_kafka.errors import KafkaTimeoutError
from tandem_kafka.events.application import Bootstrap
from tandem_kafka.logs import ClientNames
from tandem_kafka.runtime import Runtime
from tandem_kafka.runtime.callers import Callers

if TYPE_CHECKING:
    from tandem_kafka.consumer.health import Health
    from tandem_kafka.engine.assembly import Build


_numbers = itertools.count(1)


def _health(core: Core) -> Health:
    from tandem_kafka.consumer.health import health_of  # noqa: PLC0415 - few programs ask

    return health_of(core)


async def bootstrap(core: Core, timeout_ms: float | None = None, *, refresh: bool = False) -> None:
    """Wait until the cluster has been reached.

    Raises:
        KafkaTimeoutError: No broker responded in time.
    """
    config = core.config
    if timeout_ms is None:
        timeout_ms = config.bootstrap_timeout_ms
    try:
        await core.ask(Bootstrap(deadline_ms=core.deadline_ms(timeout_ms), refresh=refresh))
    except KafkaTimeoutError:
        troubles = core.engine.loop.troubles(core.clock.now_ms())
        if not troubles:
            servers = (f"{host}:{port}" for host, port in config.bootstrap_servers)
            troubles = [f"still connecting to {', '.join(servers)}; allow more time"]
        msg = (
            f"no broker responded within {timeout_ms} ms: {'; '.join(troubles)}; check "
            "bootstrap_servers and that the brokers run (`tandem-kafka doctor` tests each step)"
        )
        raise KafkaTimeoutError(msg) from None


def named_client(config: Config) -> tuple[Config, Callable[[], dict[str, Any]]]:
    """Return the options, and a function that returns the same by name as the user gave them.

    If no `client_id` was given, both have a generated one.
    """
    if config.client_id is not None:
        return config, config.by_name
    suffix = config.group_instance_id or str(next(_numbers))
    parts = ["consumer", config.group_id, suffix]
    client_id = "-".join(filter(None, parts))

    def written() -> dict[str, Any]:
        shown = config.by_name()
        shown["client_id"] = client_id
        return shown

    return config.with_client_id(client_id), written


def _assembly() -> Any:
    from tandem_kafka.engine import assembly  # noqa: PLC0415 - a third of all imports

    return assembly


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork()
    # A child process could not import what another thread was importing: the lock stays locked.
    os.register_at_fork(before=_assembly)


class Kind(NamedTuple):
    """What a kind of consumer has of its own.

    Attributes:
        build: Makes the request managers; None for those of a `KafkaConsumer`.
        health: Returns the health.
    """

    build: Build | None
    health: Callable[[Core], Health]


_CONSUMER: Final = Kind(None, _health)


class Parts:
    """What every consumer has: made with a running network thread, before its first contact.

    Args:
        config: The options.
        runtime: Clock, driver and randomness.
        callers: Threads or tasks, which decides how calls wait.
        transport: A transport for the network thread; None for sockets.
        kind: What this kind of consumer has of its own.
        hooks: The user's objects that are closed before the others.

    Raises:
        NetworkThreadError: The system cannot start another thread.
        Exception: A user's deserializer, interceptor or reporter raised it.
    """

    def __init__(
        self,
        config: Config,
        runtime: Runtime,
        callers: Callers,
        transport: Any = None,
        *,
        kind: Kind = _CONSUMER,
        hooks: Sequence[Hook] = (),
    ) -> None:
        self.deserializers = Deserializers(config)
        self.hooks: list[Hook] = [*hooks, self.deserializers, callers]
        try:
            self.reporters = Reporters(config)
            self.hooks.append(self.reporters)
            engine = _assembly().assemble(
                for_network_thread(config), runtime, transport, kind.build
            )
            self.hooks.append(engine.metrics)  # after their reporters
            self.reporters.follow(engine.metrics, engine.polls.request_attention)
            self.core = Core(config, runtime, callers, engine)
            self.core.start_network_thread()
        except BaseException:
            for hook in self.hooks:
                hook.close()
            raise
        remember(self.core, kind.health)

    async def begin(
        self,
        subscribe: Callable[[], Awaitable[None]] | None,
        close: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        """Wait for the first contact with the cluster, as kafka-python does, and subscribe.

        Args:
            subscribe: Subscribes to the topics that were given, if any.
            close: Ends the consumer if this fails.

        Raises:
            KafkaError: Either failed. The network thread has ended.
        """
        config = self.core.config
        try:
            if config.bootstrap_timeout_ms and config.api_version is None:
                await bootstrap(self.core)
            if subscribe is not None:
                await subscribe()
            self.reporters.report()
            warn_of_namesake(self.core)
        except BaseException:
            await self.core.callers.shield(close())
            raise


class ConsumerParts(Parts):
    """The parts of ``KafkaConsumer`` and ``AsyncKafkaConsumer``."""

    def __init__(
        self, config: Config, runtime: Runtime, callers: Callers, transport: Any = None
    ) -> None:
        interceptors = Interceptors(
            config.interceptor_classes, ClientNames(config.client_id, config.group_id)
        )
        super().__init__(config, runtime, callers, transport, hooks=[interceptors])
        core, engine = self.core, self.core.engine
        self.listener = ListenerCalls(core)
        self.commits = Commits(core, interceptors)
        self.collector = FetchCollector(
            engine.subscription,
            engine.buffer,
            self.deserializers,
            engine.transport.wakeup,
            config.fetch_buffer_max_bytes,
        )
        self.background = BackgroundEvents(core, self.commits, self.collector, self.listener)
        self.poller = Poller(core, self.commits, self.collector, self.background, self.reporters)
        self.reading = Reading(core, self.poller, self.collector, self.deserializers, interceptors)
        self.closing = ConsumerClosing(
            core, self.hooks, self.commits, self.listener, self.reading.iteration
        )


def for_network_thread(config: Config) -> Config:
    """Return the options without the objects that only the application thread calls.

    The token provider is replaced by a weak reference, because logins call it.
    """
    provider = config.sasl_oauth_token_provider
    return dataclasses.replace(
        config,
        key_deserializer=None,
        value_deserializer=None,
        interceptor_classes=(),
        metric_reporters=(),
        default_offset_commit_callback=None,
        sasl_oauth_token_provider=None if provider is None else _weak_provider(provider),
    )


def _weak_provider(provider: Any) -> Any:
    from tandem_kafka.consumer.weak_provider import WeakTokenProvider  # noqa: PLC0415 - few have one

    try:
        return WeakTokenProvider(provider)
    except TypeError:  # its class has __slots__ without __weakref__
        return provider
