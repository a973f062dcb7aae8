"""The responses of simulated brokers, one module for each request; `APIS` is their table."""

from __future__ import annotations

from tandem_kafka.testing.cluster.apis import (
    api_versions,
    consumer_group_describe,
    consumer_group_heartbeat,
    consumer_group_install_assignment,
    consumer_group_prepare_assignment,
    describe_groups,
    fetch,
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    list_offsets,
    metadata,
    offset_commit,
    offset_fetch,
    offset_for_leader_epoch,
    sync_group,
    telemetry,
)
from tandem_kafka.testing.cluster.apis.api import Api

__all__ = ["APIS", "TELEMETRY", "Api"]

_ALL = (
    api_versions.API,
    consumer_group_describe.API,
    consumer_group_heartbeat.API,
    consumer_group_install_assignment.API,
    consumer_group_prepare_assignment.API,
    describe_groups.API,
    fetch.API,
    find_coordinator.API,
    heartbeat.API,
    join_group.API,
    leave_group.API,
    list_offsets.API,
    metadata.API,
    offset_commit.API,
    offset_fetch.API,
    offset_for_leader_epoch.API,
    sync_group.API,
    telemetry.GET_API,
    telemetry.PUSH_API,
)

#: By API key.
APIS = {api.request.API_KEY: api for api in _ALL}

#: Keys of the APIs that are offered only if the cluster receives metrics of clients.
TELEMETRY = frozenset(api.request.API_KEY for api in (telemetry.GET_API, telemetry.PUSH_API))
