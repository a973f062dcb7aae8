"""What all parts of a consumer share: callbacks, changes, the clock and the settings."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaException

from tandem_kafka import KafkaConsumer
from tandem_kafka.confluent.configuration import Configuration
from tandem_kafka.confluent.partitions import Assigned
from tandem_kafka.confluent.taken import Taken
from tandem_kafka.errors import KafkaError
from tandem_kafka.logs import ClientNames, client_logger
from tandem_kafka.runtime import Runtime

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


class Changes:
    """Makes changes; the next call of the application repeats one that Ctrl-C has interrupted.

    Invariant: repeating is harmless. A change computes nothing from what it has altered itself.

    Attributes:
        unfinished: The change to repeat, if any.
    """

    def __init__(self, callbacks: Callbacks) -> None:
        self._callbacks = callbacks
        self.unfinished: Callable[[], object] | None = None

    def make(self, change: Callable[[], object]) -> None:
        """Make a change."""
        try:
            change()
        except (KafkaError, KafkaException):
            raise  # it was refused
        except BaseException:
            self.unfinished = change
            raise

    def finish(self) -> None:
        """Repeat an interrupted change, but not in one of its own callbacks."""
        change = self.unfinished
        if change is None or self._callbacks.running:
            return
        try:
            with suppress(KafkaError, KafkaException):  # its partition is gone
                change()
        except Exception:
            self.unfinished = None  # it never succeeds
            raise
        self.unfinished = None  # last, because this may be interrupted too


class Shared:
    """Our consumer, its partitions, what was taken from it, the clock and the settings."""

    def __init__(
        self, kafka: KafkaConsumer[Any, Any], settings: Configuration, runtime: Runtime
    ) -> None:
        self.kafka = kafka
        self.settings = settings
        self.clock = runtime.clock
        self.driver = runtime.driver
        self.assigned = Assigned()
        self.taken = Taken(kafka, self.assigned)
        self.callbacks = Callbacks(settings.log_names)
        self.changes = Changes(self.callbacks)
