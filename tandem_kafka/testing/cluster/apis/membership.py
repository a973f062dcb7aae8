"""What the group requests have in common."""

from __future__ import annotations

from typing import Any

from kafka import errors

from tandem_kafka.testing.cluster.call import Call

__all__ = ["coordinator_error"]


def coordinator_error(call: Call) -> Any:
    """Return the error if this broker does not coordinate the request's group."""
    mine = call.cluster.coordinator_of(call.request.group_id) == call.broker.node_id
    return None if mine else errors.NotCoordinatorError
