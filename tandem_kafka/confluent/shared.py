"""What all parts of a consumer share, and the calls of the application's callbacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tandem_kafka import KafkaConsumer
from tandem_kafka.confluent.configuration import Settings
from tandem_kafka.confluent.partitions import Assigned
from tandem_kafka.confluent.taken import Taken
from tandem_kafka.logs import ClientNames, client_logger
from tandem_kafka.runtime import Runtime

__all__ = ["Callbacks", "Shared"]

log = client_logger(__name__)


class Callbacks:
    """Runs the application's callbacks, and keeps the first exception."""

    def __init__(self, client: ClientNames) -> None:
        self._client = client
        self.raised: BaseException | None = None
        #: Whether one runs, which may call the consumer.
        self.running = False

    def run(self, callback: Callable[..., object], *arguments: Any) -> None:
        """Run a callback; the current method raises its exception later."""
        outer = self.running
        try:
            self.running = True
            callback(*arguments)
        except Exception as error:  # raised when the method has finished
            if self.raised is not None:
                log.exception(
                    "a second callback failed; the error of the first is raised",
                    client=self._client,
                )
            else:
                self.raised = error
        finally:
            self.running = outer

    def raise_error(self) -> None:
        """Raise the exception of a callback, once."""
        if self.raised is not None:
            error, self.raised = self.raised, None
            raise error


class Shared:
    """Our consumer, its partitions, what was taken from it, the clock and the settings."""

    def __init__(
        self, kafka: KafkaConsumer[Any, Any], settings: Settings, runtime: Runtime
    ) -> None:
        self.kafka = kafka
        self.settings = settings
        self.clock = runtime.clock
        self.driver = runtime.driver
        self.assigned = Assigned()
        self.taken = Taken(kafka, self.assigned)
        self.callbacks = Callbacks(settings.log_names)
