"""Chooses the group protocol: as configured or, with 'auto', as the cluster supports it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from tandem_kafka.errors import UnsupportedVersionError
from tandem_kafka.logs import client_logger
from tandem_kafka.request_managers.context import ManagerContext
from tandem_kafka.request_managers.coordinator_request_manager import CoordinatorRequestManager
from tandem_kafka.request_managers.membership.interface import Membership
from tandem_kafka.request_managers.metadata_refresh import MetadataRefresher

log = client_logger(__name__)


def choose_membership(
    context: ManagerContext, coordinator: CoordinatorRequestManager, metadata: MetadataRefresher
) -> Membership:
    """Create the membership for `group_protocol`."""
    protocol = context.config.group_protocol
    # Classic groups do not support these assignors, so there is no fallback.
    if protocol == "auto" and not context.config.group_local_assignors:
        return cast("Membership", AutoMembership(context, coordinator, metadata))
    if protocol == "auto":
        log.info(
            "group %s: group_protocol='auto' uses 'consumer' (KIP-848), because "
            "group_local_assignors require it",
            context.config.group_id,
        )
    if protocol in ("consumer", "auto"):
        return _kip848(context, coordinator, metadata)
    return _classic(context, coordinator, metadata)


def _kip848(
    context: ManagerContext,
    coordinator: CoordinatorRequestManager,
    metadata: MetadataRefresher,
    on_unsupported: Callable[[UnsupportedVersionError], None] | None = None,
) -> Membership:
    from tandem_kafka.request_managers.membership.kip848.membership import (  # noqa: PLC0415
        Kip848Membership,
    )

    return Kip848Membership(context, coordinator, metadata, on_unsupported)


def _classic(
    context: ManagerContext, coordinator: CoordinatorRequestManager, metadata: MetadataRefresher
) -> Membership:
    from tandem_kafka.request_managers.membership.classic.membership import (  # noqa: PLC0415
        ClassicMembership,
    )

    return ClassicMembership(context, coordinator, metadata)


class AutoMembership:
    """Joins with KIP-848, or with the classic protocol if the cluster does not support that.

    A `SubscriptionPattern` requires KIP-848, so there is no fallback for it.
    """

    def __init__(
        self,
        context: ManagerContext,
        coordinator: CoordinatorRequestManager,
        metadata: MetadataRefresher,
    ) -> None:
        self._context = context
        self._coordinator = coordinator
        self._metadata = metadata
        self._membership = _kip848(context, coordinator, metadata, self._fall_back)
        log.info(
            "group %s: group_protocol='auto' uses 'consumer' (KIP-848) if the cluster supports it",
            context.config.group_id,
        )

    def _fall_back(self, error: UnsupportedVersionError) -> None:
        log.info(
            "group %s: group_protocol='auto' falls back to 'classic': %s",
            self._context.config.group_id,
            error,
        )
        self._membership = _classic(self._context, self._coordinator, self._metadata)
        self._membership.application_polled()

    def commit_rejected(self, error: Exception) -> None:
        """See `Membership`; the manager of commits keeps this method for good."""
        self._membership.commit_rejected(error)

    def __getattr__(self, name: str) -> Any:
        """Return a method or property of `Membership`: that of the protocol in use."""
        return getattr(self._membership, name)
