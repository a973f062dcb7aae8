"""What every consumer tells about itself without waiting, and `wakeup()`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tandem_kafka.config import Config
from tandem_kafka.consumer.concurrent_calls import WithCore, part_of_consumers
from tandem_kafka.consumer.known_cores import health_of
from tandem_kafka.logs import ClientNames

if TYPE_CHECKING:
    from tandem_kafka.consumer.health import Health


@part_of_consumers
class Inquiries(WithCore):
    """A part of all consumers. Any thread may call these methods."""

    _config: Config
    _written: Callable[[], dict[str, Any]]
    _release_known = False

    def wakeup(self) -> None:
        """Interrupt a blocked call, or else the next one; it raises ``WakeupError``.

        This applies to poll, iteration, commit and, where a consumer has them, committed, position,
        topics, cluster and partitions_for_topic. Any thread or signal handler may call this method.
        """
        self._core.wakeup()

    def bootstrap_connected(self) -> bool:
        """Return whether the cluster has been reached, and the consumer has not been closed."""
        self._core.check_readable()
        return not self._core.closed and self._core.engine.metadata.snapshot.version > 0

    def health(self) -> Health:
        """Return what this consumer does, what it waits for, and what is wrong.

        Any thread may call this, also while another one is inside ``poll()``. It never waits.

        .. versionadded:: 0.10
        """
        return health_of(self._core)

    def diagnose(self) -> str:
        """Return ``health()`` and more as text, with the stacks of all threads; for people.

        Any thread may call this, and it never waits. Secrets are hidden.

        .. versionadded:: 0.10
        """
        from tandem_kafka.consumer.diagnosis import diagnose  # noqa: PLC0415 - few programs ask

        return diagnose(self._core)

    def metrics(self, raw: bool = False) -> Any:
        """Return the consumer's metrics, or None if ``metrics_enabled`` is False.

        After ``close()`` there are none, as in kafka-python.

        Args:
            raw: If True, return kafka-python's metric objects by ``MetricName``. Otherwise return
                values by group and name; each topic and each partition has its own group.
        """
        measured = self._core.engine.metrics
        return measured.raw() if raw else measured.values()

    @property
    def log_names(self) -> ClientNames:
        """The names of this consumer, for a logger of ``tandem_kafka.logs``.

        .. versionadded:: 0.10
        """
        return self._core.client

    @property
    def config(self) -> dict[str, Any]:
        """The options by name, with defaults for those not given; changing it has no effect.

        Once the cluster has been reached, ``api_version`` is the release of its brokers. The
        ``repr()`` hides secrets; the values do not.
        """
        if not self._release_known:
            release = self._core.engine.release()
            if release is not None:
                self._release_known = True
                self._options["api_version"] = release
        return self._options

    @cached_property
    def _options(self) -> dict[str, Any]:
        return self._written()

    def __repr__(self) -> str:
        """Show the client id and the group id, and whether the consumer is closed."""
        if not hasattr(self, "_config"):  # in a traceback of its constructor
            return f"<{type(self).__name__} without options>"
        group = f", group {self._config.group_id!r}" if self._config.group_id is not None else ""
        core = self.__dict__.get("_core")
        closed = ", closed" if core is not None and core.closed else ""
        return f"<{type(self).__name__} {self._config.client_id!r}{group}{closed}>"
