"""The responses of simulated brokers, one module for each request; `APIS` is their table."""

from __future__ import annotations

from tandem_kafka_testing.cluster.apis import (
    api_versions,
    configs,
    consumer_group_describe,
    consumer_group_heartbeat,
    consumer_group_install_assignment,
    consumer_group_prepare_assignment,
    describe_cluster,
    describe_groups,
    fetch,
    find_coordinator,
    groups,
    heartbeat,
    join_group,
    leave_group,
    list_offsets,
    log_dirs,
    metadata,
    offset_commit,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sasl,
    share_acknowledge,
    share_fetch,
    share_group_describe,
    share_group_heartbeat,
    share_group_offsets,
    sync_group,
    telemetry,
    topics,
    transactions,
)
from tandem_kafka_testing.cluster.apis.api import Api

__all__ = ["APIS", "LOGIN", "TELEMETRY", "Api"]

_ALL = (
    api_versions.API,
    consumer_group_describe.API,
    consumer_group_heartbeat.API,
    consumer_group_install_assignment.API,
    consumer_group_prepare_assignment.API,
    describe_cluster.API,
    describe_groups.API,
    fetch.API,
    find_coordinator.API,
    heartbeat.API,
    join_group.API,
    leave_group.API,
    list_offsets.API,
    log_dirs.API,
    metadata.API,
    offset_commit.API,
    offset_fetch.API,
    offset_for_leader_epoch.API,
    produce.API,
    share_acknowledge.API,
    share_fetch.API,
    share_group_describe.API,
    share_group_heartbeat.API,
    sync_group.API,
    telemetry.GET_API,
    telemetry.PUSH_API,
    *configs.APIS,
    *groups.APIS,
    *sasl.APIS,
    *share_group_offsets.APIS,
    *topics.APIS,
    *transactions.APIS,
)

#: By API key.
APIS = {api.request.API_KEY: api for api in _ALL}

#: Keys of the APIs that are offered only if the cluster receives metrics of clients.
TELEMETRY = frozenset(api.request.API_KEY for api in (telemetry.GET_API, telemetry.PUSH_API))

#: Keys of the APIs that serve a client before its login.
LOGIN = frozenset({api_versions.API.request.API_KEY, *(api.request.API_KEY for api in sasl.APIS)})
