"""All messages that this client uses: those of kafka-python, and additional ones.

The additional messages are defined by the JSON schema files in this folder, with kafka-python's
message class. kafka-python reads a schema when it defines a message, so messages are imported and
defined on first use.
"""

from __future__ import annotations

from tandem_kafka.runtime.kafka_python import schemas_may_be_read

from importlib import import_module
from typing import Any, Final

_GROUP: Final = "kafka.protocol.consumer.group"
_OFFSETS: Final = "kafka.protocol.consumer.offsets"
_SASL: Final = "kafka.protocol.sasl"

#: Where kafka-python has the messages of an API.
_OF_KAFKA_PYTHON: Final = {
    "ApiVersions": "kafka.protocol.metadata.api_versions",
    "Fetch": "kafka.protocol.consumer.fetch",
    "FindCoordinator": "kafka.protocol.metadata.find_coordinator",
    "Heartbeat": _GROUP,
    "JoinGroup": _GROUP,
    "LeaveGroup": _GROUP,
    "ListOffsets": _OFFSETS,
    "Metadata": "kafka.protocol.metadata.metadata",
    "OffsetCommit": _GROUP,
    "OffsetFetch": _GROUP,
    "OffsetForLeaderEpoch": _OFFSETS,
    "SaslAuthenticate": _SASL,
    "SaslHandshake": _SASL,
    "SyncGroup": _GROUP,
}
#: What it lacks.
_ADDITIONAL: Final = frozenset(
    {
        # KIP-848, and client-side assignment, which no released broker supports.
        "ConsumerGroupDescribe",
        "ConsumerGroupHeartbeat",
        "ConsumerGroupInstallAssignment",
        "ConsumerGroupPrepareAssignment",
        # KIP-932
        "AlterShareGroupOffsets",
        "DeleteShareGroupOffsets",
        "DescribeShareGroupOffsets",
        "ShareAcknowledge",
        "ShareFetch",
        "ShareGroupDescribe",
        "ShareGroupHeartbeat",
        # KIP-714
        "GetTelemetrySubscriptions",
        "PushTelemetry",
    }
)
_KINDS: Final = ("Request", "Response")
#: The request and the response of each API that is defined here, by its key.
definitions: Final[dict[int, list[Any]]] = {}


def __getattr__(name: str) -> Any:
    api = next((name.removesuffix(kind) for kind in _KINDS if name.endswith(kind)), name)
    if api in _ADDITIONAL and name != api:
        globals().update(_defined(api))
        return globals()[name]
    if api not in _OF_KAFKA_PYTHON or name == api:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_OF_KAFKA_PYTHON[api]), name)
    return found


def _defined(api: str) -> dict[str, Any]:
    """Define the request and the response of an API.

    Invariant: no lock, which an interrupt or a fork could leave locked. Of threads that ask
    together, each defines them, and the first definition counts.
    """
    from kafka.protocol.api_message import ApiMessage  # noqa: PLC0415 - on first use

    kind: Any = type(ApiMessage)
    names = [api + kind for kind in _KINDS]
    with schemas_may_be_read():
        made = [
            kind(name, (ApiMessage,), {"__module__": __name__}, load_json=__package__)
            for name in names
        ]
    if api == "ShareFetch":
        from tandem_kafka.wire.record_views import view_records  # noqa: PLC0415 - likewise

        view_records(made[1])
    return dict(zip(names, definitions.setdefault(made[1].API_KEY, made), strict=True))


def __dir__() -> list[str]:
    apis = {*_OF_KAFKA_PYTHON, *_ADDITIONAL}
    return sorted({*globals(), *(api + kind for api in apis for kind in _KINDS)})
