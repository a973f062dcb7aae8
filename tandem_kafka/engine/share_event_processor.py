"""Processes each event of a share consumer once, on the network thread."""

from __future__ import annotations

from tandem_kafka.engine.application_event_processor import EventProcessor
from tandem_kafka.engine.assembly import Build
from tandem_kafka.engine.loop import Managers
from tandem_kafka.errors import IllegalStateError
from tandem_kafka.events import application as events
from tandem_kafka.network.client import NetworkClient
from tandem_kafka.request_managers.context import ManagerContext
from tandem_kafka.request_managers.share.managers import ShareManagers
from tandem_kafka.state.locked_records import LockedRecords


class ShareEventProcessor(EventProcessor):
    """Passes each event on to the request manager that handles it."""

    def __init__(self, context: ManagerContext, managers: ShareManagers) -> None:
        self._context = context
        self._managers = managers

    def _dispatch(self, event: events.ApplicationEvent) -> None:  # noqa: C901, PLR0912 - a table
        context, managers = self._context, self._managers
        match event:
            case events.Withdraw():
                self._withdraw(event)
            case events.Poll():
                context.polls.event_needed = False
                managers.membership.application_polled()
                event.future.complete(None)
            case events.Acknowledge():
                event.future.complete(None)  # the manager takes them in its next poll
            case events.CommitAcknowledgements():
                managers.locks.commit(event.future, closing=event.closing)
            case events.Subscribe():
                if context.subscription.subscribe(event.topics):
                    managers.metadata.request_update()
                    managers.locks.release_unwanted()
                context.polls.event_needed = True
                event.future.complete(None)
            case events.Unsubscribe():
                context.subscription.unsubscribe()
                context.failures.forget()
                managers.coordinator.stop_looking()
                managers.locks.release_unwanted()
                event.future.complete(None)
            case events.LeaveGroup():
                context.group.forget()
                managers.membership.leave(event.future)
            case events.GetClientInstanceId():
                managers.telemetry.await_client_instance_id(event.future)
            case events.Bootstrap():
                managers.metadata.request_update(at_once=True)
                managers.metadata.wait_for_answer(event.future, refresh=event.refresh)
            case events.Close():
                event.future.complete(None)  # the loop handles it
            case _:
                msg = f"a share consumer has no {event.operation}"
                raise IllegalStateError(msg)


def share_managers(records: LockedRecords) -> Build:
    """Return what makes the request managers of a share consumer."""

    def build(context: ManagerContext, client: NetworkClient) -> tuple[Managers, EventProcessor]:
        managers = ShareManagers(context, client.offers, records)
        client.lost = managers.locks.connection_lost
        return managers, ShareEventProcessor(context, managers)

    return build
