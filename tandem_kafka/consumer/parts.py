"""The parts between the public methods of a consumer and its network thread."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

from tandem_kafka.config import Config
from tandem_kafka.consumer.background_events import BackgroundEvents
from tandem_kafka.consumer.closing import Closing, Hook
from tandem_kafka.consumer.collector import Collector
from tandem_kafka.consumer.commits import Commits
from tandem_kafka.consumer.core import Core
from tandem_kafka.consumer.deserializers import Deserializers
from tandem_kafka.consumer.diagnosis import remember
from tandem_kafka.consumer.interceptors import Interceptors
from tandem_kafka.consumer.listener import ListenerCalls
from tandem_kafka.consumer.network_thread_options import for_network_thread
from tandem_kafka.consumer.poller import Poller
from tandem_kafka.consumer.positions import Positions
from tandem_kafka.consumer.reading import Reading
from tandem_kafka.consumer.reporters import Reporters
from tandem_kafka.engine.assembly import assemble
from tandem_kafka.logs import ClientNames
from tandem_kafka.runtime import Runtime
from tandem_kafka.runtime.callers import Callers

_numbers = itertools.count(1)


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

    return dataclasses.replace(config, client_id=client_id), written


class Parts:
    """Made with a running network thread, before its first contact with the cluster.

    Args:
        config: The options.
        runtime: Clock, driver and randomness.
        callers: Threads or tasks, which decides how calls wait.
        transport: A transport for the network thread; None for sockets.

    Raises:
        NetworkThreadError: The system cannot start another thread.
        Exception: A user's deserializer, interceptor or reporter raised it.
    """

    def __init__(
        self, config: Config, runtime: Runtime, callers: Callers, transport: Any = None
    ) -> None:
        interceptors = Interceptors(
            config.interceptor_classes, ClientNames(config.client_id, config.group_id)
        )
        deserializers = Deserializers(config)
        hooks: list[Hook] = [interceptors, deserializers, callers]
        try:
            self._reporters = Reporters(config)
            hooks.append(self._reporters)
            engine = assemble(for_network_thread(config), runtime, transport)
            self._reporters.follow(engine.metrics, engine.polls.request_attention)
            core = Core(config, runtime, callers, engine)
            core.start_network_thread()
        except BaseException:
            for hook in hooks:
                hook.close()
            raise
        self.core = core
        remember(core)
        self.listener = ListenerCalls(core)
        self.commits = Commits(core, interceptors)
        self.positions = Positions(core)
        self.collector = Collector(
            engine.subscription,
            engine.buffer,
            deserializers,
            engine.transport.wakeup,
            config.fetch_buffer_max_bytes,
        )
        self.background = BackgroundEvents(core, self.commits, self.collector, self.listener)
        poller = Poller(core, self.commits, self.collector, self.background, self._reporters)
        self.reading = Reading(core, poller, self.collector, deserializers, interceptors)
        self.closing = Closing(core, self.commits, self.listener, self.reading.iteration, hooks)

    def report(self) -> None:
        """Tell the user's reporters of all metrics."""
        self._reporters.report()
