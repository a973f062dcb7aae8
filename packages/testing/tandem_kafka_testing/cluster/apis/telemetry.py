"""GetTelemetrySubscriptions and PushTelemetry: metrics of clients, if the cluster receives them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from tandem_kafka.wire.messages import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
    PushTelemetryRequest,
    PushTelemetryResponse,
)
from tandem_kafka_testing.cluster.apis.api import Api, error_code
from tandem_kafka_testing.cluster.call import Call
from tandem_kafka_testing.cluster.telemetry import Push, TelemetryReceiver


def _receiver(call: Call) -> TelemetryReceiver:
    receiver = call.cluster.telemetry
    if receiver is None:
        raise LookupError("the API is offered only with a receiver")
    return receiver


def _get(call: Call) -> Any:
    receiver = _receiver(call)
    known = call.request.client_instance_id
    return GetTelemetrySubscriptionsResponse(
        throttle_time_ms=0,
        error_code=0,
        client_instance_id=known if known and known.int else _new_id(call),
        subscription_id=receiver.number,
        accepted_compression_types=list(receiver.accepted),
        push_interval_ms=receiver.interval_ms,
        telemetry_max_bytes=receiver.max_bytes,
        delta_temporality=receiver.delta,
        requested_metrics=list(receiver.prefixes),
    )


def _new_id(call: Call) -> UUID:
    return UUID(int=call.cluster.random.getrandbits(128), version=4)


def _push(call: Call) -> Any:
    receiver, request, node_id = _receiver(call), call.request, call.broker.node_id
    now_ms = call.cluster.clock.now_ms()
    error = receiver.push_error(request, node_id, now_ms)
    if error is None:
        receiver.pushes.append(
            Push(
                at_ms=now_ms,
                client_instance_id=request.client_instance_id,
                node_id=node_id,
                terminating=request.terminating,
                compression=request.compression_type,
                metrics=bytes(request.metrics),
            )
        )
    return PushTelemetryResponse(throttle_time_ms=0, error_code=error_code(error))


GET_API = Api(GetTelemetrySubscriptionsRequest, (0, 0), _get)
PUSH_API = Api(PushTelemetryRequest, (0, 0), _push)
