"""The check that the group requests share."""

from __future__ import annotations

from typing import Any

from kafka import errors

from tandem_kafka_testing.cluster.call import Call


def coordinator_error(call: Call, group_id: str | None = None) -> Any:
    """Return the error if this broker does not coordinate a group (default: the request's)."""
    group_id = call.request.group_id if group_id is None else group_id
    mine = call.cluster.coordinator_of(group_id) == call.broker.node_id
    return None if mine else errors.NotCoordinatorError
