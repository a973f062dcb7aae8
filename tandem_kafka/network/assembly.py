"""Builds what runs on the network thread, and hands the application thread its end of it."""

from __future__ import annotations

from dataclasses import dataclass

from tandem_kafka.config import Config
from tandem_kafka.events.queues import ApplicationQueue, BackgroundQueue
from tandem_kafka.network.client import NetworkClient
from tandem_kafka.network.loop import NetworkLoop
from tandem_kafka.network.selector import SelectorTransport
from tandem_kafka.network.transport import Transport
from tandem_kafka.request_managers.context import ManagerContext
from tandem_kafka.request_managers.managers import RequestManagers
from tandem_kafka.runtime import Runtime
from tandem_kafka.shared.fetch_buffer import FetchBuffer
from tandem_kafka.shared.group import GroupIdentity
from tandem_kafka.shared.metadata import ClusterMetadata
from tandem_kafka.shared.subscription import SubscriptionState

__all__ = ["Link", "assemble"]


@dataclass(frozen=True, slots=True)
class Link:
    """The application thread's end: queues to speak through, shared state to read."""

    loop: NetworkLoop
    queue: ApplicationQueue
    background: BackgroundQueue
    buffer: FetchBuffer
    subscription: SubscriptionState
    metadata: ClusterMetadata
    group: GroupIdentity
    transport: Transport


def assemble(config: Config, runtime: Runtime, transport: Transport | None = None) -> Link:
    """Wire everything up; nothing runs yet.

    Raises:
        KafkaConfigurationError: A certificate, key or CA file cannot be used.
    """
    if transport is None:
        transport = SelectorTransport(config, runtime.clock)
    metadata = ClusterMetadata(config.bootstrap_servers)
    queue = ApplicationQueue(transport.wakeup)
    context = ManagerContext(
        config=config,
        clock=runtime.clock,
        random=runtime.random,
        metadata=metadata,
        subscription=SubscriptionState(),
        buffer=FetchBuffer(),
        group=GroupIdentity(config.group_id, config.group_instance_id),
        background=BackgroundQueue(),
    )
    client = NetworkClient(config, transport, runtime.driver, runtime.random, metadata)
    managers = RequestManagers.build(context)
    loop = NetworkLoop(context, managers, client, transport, queue, runtime.driver)
    return Link(
        loop=loop,
        queue=queue,
        background=context.background,
        buffer=context.buffer,
        subscription=context.subscription,
        metadata=metadata,
        group=context.group,
        transport=transport,
    )
