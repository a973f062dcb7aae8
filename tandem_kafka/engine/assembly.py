"""Builds the objects of the network thread, and the application thread's handle to them."""

from __future__ import annotations

from collections.abc import Callable

from tandem_kafka.config import Config
from tandem_kafka.engine.application_event_processor import (
    ApplicationEventProcessor,
    EventProcessor,
)
from tandem_kafka.engine.handle import EngineHandle
from tandem_kafka.engine.loop import Managers, NetworkLoop
from tandem_kafka.events.background import ErrorEvent
from tandem_kafka.events.queues import ApplicationEventQueue, BackgroundEventQueue
from tandem_kafka.logs import LinesOf
from tandem_kafka.metrics import CONSUMER, COORDINATOR, ConsumerMetrics
from tandem_kafka.network.client import NetworkClient
from tandem_kafka.network.implementation import open_transport
from tandem_kafka.network.transport import Transport
from tandem_kafka.records import ReaderOptions
from tandem_kafka.request_managers.context import ManagerContext
from tandem_kafka.request_managers.managers import RequestManagers
from tandem_kafka.request_managers.user_code import UserCodeRunner
from tandem_kafka.runtime import Runtime
from tandem_kafka.state.fetch_buffer import FetchBuffer
from tandem_kafka.state.group import GroupIdentity
from tandem_kafka.state.metadata import ClusterMetadata
from tandem_kafka.state.polls import Polls
from tandem_kafka.state.subscription import SubscriptionState

#: Makes the request managers, and what processes the events of the application.
Build = Callable[[ManagerContext, NetworkClient], tuple[Managers, EventProcessor]]


def managers_of_consumer(
    context: ManagerContext, client: NetworkClient
) -> tuple[Managers, EventProcessor]:
    """Make the request managers of a `KafkaConsumer`."""
    managers = RequestManagers(context, client.offers)
    return managers, ApplicationEventProcessor(context, managers)


def assemble(
    config: Config,
    runtime: Runtime,
    transport: Transport | None = None,
    build: Build | None = None,
) -> EngineHandle:
    """Create and connect all objects without starting the network thread.

    Args:
        config: The options.
        runtime: Clock, driver and randomness.
        transport: A transport; None for sockets.
        build: Makes the request managers; None for those of a `KafkaConsumer`.

    Raises:
        KafkaConfigurationError: A certificate, key or CA file cannot be used.
    """
    group = GroupIdentity(
        config.group_id, config.group_instance_id, config.client_id, login_name=config.login_name
    )
    with LinesOf(group.client):
        return _assemble(config, runtime, transport, group, build or managers_of_consumer)


def _assemble(
    config: Config,
    runtime: Runtime,
    transport: Transport | None,
    group: GroupIdentity,
    build: Build,
) -> EngineHandle:
    if transport is None:
        transport = open_transport(config, runtime.clock, ReaderOptions.of(config))
    metadata = ClusterMetadata(config.bootstrap_servers)
    queue = ApplicationEventQueue(transport.wakeup)
    polls = Polls()
    background = BackgroundEventQueue(polls)
    user_code = UserCodeRunner(
        runtime.driver.offload,
        transport.wakeup,
        lambda error: background.add_error(ErrorEvent(error)),
    )
    context = ManagerContext(
        config=config,
        clock=runtime.clock,
        random=runtime.random,
        metadata=metadata,
        subscription=SubscriptionState(),
        buffer=FetchBuffer(config.fetch_buffer_max_bytes),
        group=group,
        background=background,
        metrics=ConsumerMetrics(config, runtime.clock),
        polls=polls,
        user_code=user_code,
        notifier=runtime.driver.notifier,
    )
    client = NetworkClient(
        config, transport, runtime.driver, runtime.random, metadata, context.metrics
    )
    _register_gauges(context, client, queue)
    managers, processor = build(context, client)
    loop = NetworkLoop(context, managers, processor, client, transport, queue, runtime.driver)
    return EngineHandle(
        loop=loop,
        queue=queue,
        background=context.background,
        buffer=context.buffer,
        subscription=context.subscription,
        metadata=metadata,
        group=context.group,
        polls=context.polls,
        topic_troubles=context.topic_troubles,
        failures=context.failures,
        transport=transport,
        metrics=context.metrics,
        release=client.release,
    )


def _register_gauges(
    context: ManagerContext, client: NetworkClient, queue: ApplicationEventQueue
) -> None:
    metrics, counters, buffer = context.metrics, client.counters, context.buffer
    chunks = buffer.queue
    polls, clock = context.polls, context.clock

    def last_poll_s() -> float:
        return (clock.now_ms() - polls.polled_ms) / 1_000 if polls.polled_ms else -1.0

    if not context.config.shares:
        assigned = lambda: len(context.subscription.assigned)  # noqa: E731
        metrics.gauge("assigned-partitions", COORDINATOR, "currently assigned partitions", assigned)
        held = lambda: buffer.held_bytes  # noqa: E731
        metrics.gauge("fetch-buffer-bytes", CONSUMER, "bytes in the fetch buffer", held)
    for name, meaning, value in (
        (
            "connection-count",
            "open connections",
            lambda: counters.connections_opened - counters.connections_closed,
        ),
        ("connection-creation-total", "connections opened", lambda: counters.connections_opened),
        ("connection-close-total", "connections closed", lambda: counters.connections_closed),
        ("failed-connection-total", "connections that failed", lambda: counters.connections_failed),
        ("request-total", "requests sent", lambda: counters.requests_sent + chunks.repeated[0]),
        (
            "response-total",
            "responses received",
            lambda: counters.responses_received + chunks.repeated[0],
        ),
        ("incoming-byte-total", "bytes received", lambda: counters.bytes_in + chunks.repeated[1]),
        ("outgoing-byte-total", "bytes sent", lambda: counters.bytes_out + chunks.repeated[2]),
        ("application-event-queue-size", "events for the network thread", lambda: len(queue)),
        (
            "background-event-queue-size",
            "events for the application thread",
            lambda: len(context.background),
        ),
        ("last-poll-seconds-ago", "seconds since the application was inside poll()", last_poll_s),
    ):
        metrics.gauge(name, CONSUMER, meaning, value)
