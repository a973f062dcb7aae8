"""All request managers of one consumer, in the order in which they are polled."""

from __future__ import annotations

from collections.abc import Iterator

from tandem_kafka.request_managers.base import RequestManager
from tandem_kafka.request_managers.context import ManagerContext
from tandem_kafka.request_managers.fetching.fetch_request_manager import FetchRequestManager
from tandem_kafka.request_managers.membership.ungrouped import UngroupedMembership
from tandem_kafka.request_managers.metadata_refresh import MetadataRefresher
from tandem_kafka.request_managers.offsets_request_manager import OffsetsRequestManager
from tandem_kafka.request_managers.positions_request_manager import PositionsRequestManager
from tandem_kafka.request_managers.telemetry.telemetry_request_manager import (
    Offers,
    TelemetryRequestManager,
)
from tandem_kafka.request_managers.topic_metadata_request_manager import TopicMetadataRequestManager
from tandem_kafka.request_managers.validation_request_manager import ValidationRequestManager


class GroupManagers:
    """The managers of a consumer with a `group_id`."""

    def __init__(self, context: ManagerContext, metadata: MetadataRefresher) -> None:
        # Not every consumer has a group.
        from tandem_kafka.request_managers.commit_request_manager import CommitRequestManager  # noqa: PLC0415
        from tandem_kafka.request_managers.committed_offsets_request_manager import (  # noqa: PLC0415
            CommittedOffsetsRequestManager,
        )
        from tandem_kafka.request_managers.coordinator_request_manager import (  # noqa: PLC0415
            CoordinatorRequestManager,
        )
        from tandem_kafka.request_managers.membership.choice import choose_membership  # noqa: PLC0415

        coordinator = CoordinatorRequestManager(context, context.config.group_id or "")
        self.coordinator = coordinator
        self.commit = CommitRequestManager(context, coordinator, metadata.refresh)
        self.membership = choose_membership(context, coordinator, metadata)
        self.commit.on_rejected(self.membership.commit_rejected)
        self.committed = CommittedOffsetsRequestManager(context, coordinator, metadata.refresh)


class RequestManagers:
    """The managers by their subjects.

    Args:
        context: What the managers share.
        offers: Tells whether the last connected broker offers an API, by its key.
    """

    def __init__(self, context: ManagerContext, offers: Offers) -> None:
        self.metadata = metadata = MetadataRefresher(context)
        grouped = context.config.group_id is not None
        self.group = group = GroupManagers(context, metadata) if grouped else None
        self.list_offsets = OffsetsRequestManager(context, metadata)
        committed = group.committed if group is not None else None
        self.positions = PositionsRequestManager(context, self.list_offsets, committed)
        self.membership = UngroupedMembership(context) if group is None else group.membership
        self.validation = ValidationRequestManager(context, metadata, self.positions)
        self.fetch = FetchRequestManager(context, metadata, self.positions)
        self.topic_metadata = TopicMetadataRequestManager(context)
        self.telemetry = TelemetryRequestManager(context, offers)

    @property
    def added(self) -> int:
        """How many results of fetches are or were in the buffer."""
        return self.fetch.added

    def end_changed_fetches(self) -> None:
        """End the standing fetches if anything has changed."""
        self.fetch.end_changed_fetches()

    def __iter__(self) -> Iterator[RequestManager]:
        """Yield managers that start work in others before those others."""
        yield self.positions
        yield self.membership
        if self.group is not None:
            yield self.group.commit
            yield self.group.committed
            yield self.group.coordinator
        yield self.list_offsets
        yield self.validation
        yield self.fetch
        yield self.topic_metadata
        yield self.metadata
        yield self.telemetry
