"""What processes the events of the application, whatever the kind of consumer."""

from __future__ import annotations

from abc import ABC, abstractmethod

from tandem_kafka.errors import KafkaError, KafkaTimeoutError
from tandem_kafka.events.application import ApplicationEvent, Withdraw
from tandem_kafka.logs import client_logger
from tandem_kafka.request_managers.exchange import internal_error

log = client_logger(__name__)


class EventProcessor(ABC):
    """Passes each event on to the request manager that handles it."""

    def process(self, event: ApplicationEvent) -> None:
        """Process an event; an error fails its future."""
        try:
            self._dispatch(event)
        except KafkaError as error:
            event.future.fail(error)
        except Exception as error:
            log.exception(
                "%s failed on the network thread because of a defect in tandem-kafka; please "
                "report it",
                event.operation,
            )
            event.future.fail(internal_error(error))

    @staticmethod
    def _withdraw(event: Withdraw) -> None:
        """Fail an event whose caller has ended its wait: managers drop what is done."""
        asked = event.event
        asked.future.fail(KafkaTimeoutError(f"{asked.operation} was interrupted"))
        event.future.complete(None)

    @abstractmethod
    def _dispatch(self, event: ApplicationEvent) -> None:
        """Handle an event by its type."""
