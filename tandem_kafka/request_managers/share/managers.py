"""All request managers of a share consumer, in the order in which they are polled."""

from __future__ import annotations

from collections.abc import Iterator

from tandem_kafka.request_managers.base import RequestManager
from tandem_kafka.request_managers.context import ManagerContext
from tandem_kafka.request_managers.coordinator_request_manager import CoordinatorRequestManager
from tandem_kafka.request_managers.metadata_refresh import MetadataRefresher
from tandem_kafka.request_managers.share.consume_request_manager import ShareConsumeRequestManager
from tandem_kafka.request_managers.share.membership import ShareMembership
from tandem_kafka.request_managers.telemetry.telemetry_request_manager import (
    Offers,
    TelemetryRequestManager,
)
from tandem_kafka.state.locked_records import LockedRecords


class ShareManagers:
    """The managers by their subjects.

    Args:
        context: What the managers share.
        offers: Tells whether the last connected broker offers an API, by its key.
        records: What crosses to the application.
    """

    def __init__(self, context: ManagerContext, offers: Offers, records: LockedRecords) -> None:
        self._records = records
        self.metadata = MetadataRefresher(context)
        self.coordinator = CoordinatorRequestManager(context, context.config.group_id or "")
        self.membership = ShareMembership(context, self.coordinator, self.metadata, records)
        self.locks = ShareConsumeRequestManager(context, self.metadata, self.membership, records)
        self.telemetry = TelemetryRequestManager(context, offers)

    @property
    def added(self) -> int:
        """How many partitions with records the application has been given."""
        return self._records.added

    def end_changed_fetches(self) -> None:
        """Do nothing: the transport repeats no fetch of a share group."""

    def __iter__(self) -> Iterator[RequestManager]:
        """Yield managers that start work in others before those others."""
        yield self.membership
        yield self.coordinator
        yield self.locks
        yield self.metadata
        yield self.telemetry
