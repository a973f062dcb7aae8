"""Chooses the versions of requests."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final, NamedTuple

from tandem_kafka.errors import KafkaConfigurationError, KafkaError, UnsupportedVersionError
from tandem_kafka.wire import messages

_UNKNOWN_RELEASE: Final = (0,)
_HEARTBEAT: Final = 68

#: The first release with record batches (message format v2).
_OLDEST: Final = (0, 11)


class BrokerVersionData(NamedTuple):
    """The API versions of a broker; kafka-python's class imports all messages of its admin client.

    Attributes:
        broker_version: The release.
        api_versions: The lowest and the highest version by API key.
    """

    broker_version: tuple[int, ...]
    api_versions: Mapping[int, tuple[int, int]]


def choose_version(message: Any, broker_versions: BrokerVersionData) -> int:
    """Return the highest version of a message that the broker supports.

    The version is within the message's own `min_version` and `max_version`, which are arguments of
    its constructor.
    """
    offered = broker_versions.api_versions.get(message.API_KEY)
    lowest, highest = _limits(message)
    if offered is None or lowest > offered[1] or highest < offered[0]:
        raise UnsupportedVersionError(_explain(message, offered))
    # Invariant: assignors are announced only if the broker has the requests to compute with them.
    # Any other ignores the field, which is a tagged one, and would never request a computation.
    if _has_assignors(message):
        choose_version(messages.ConsumerGroupPrepareAssignmentRequest(), broker_versions)
    return min(highest, offered[1])


def kind_of(message: Any) -> tuple[object, ...]:
    """Return a key for the choice: messages with the same key have the same version."""
    # The limits of a single message have no public name in kafka-python.
    lowest, highest = message._min_version, message._max_version  # noqa: SLF001
    return type(message), lowest, highest, _has_assignors(message)


def _has_assignors(message: Any) -> bool:
    return message.API_KEY == _HEARTBEAT and message.client_assignors is not None


def _limits(message: Any) -> tuple[int, int]:
    # The limits of a single message have no public name in kafka-python.
    lowest = getattr(message, "_min_version", None) or message.min_version
    highest = getattr(message, "_max_version", None)
    return lowest, message.max_version if highest is None else min(highest, message.max_version)


def _explain(message: Any, offered: tuple[int, int] | None) -> str:
    lowest, highest = _limits(message)
    broker = f"versions {offered[0]} to {offered[1]}" if offered else "no version of it"
    client = f"version {lowest}" if lowest == highest else f"version {lowest} to {highest}"
    return f"{message.name}: this client supports {client}, but the broker supports {broker}"


def versions_of_release(release: tuple[int, ...] | None) -> BrokerVersionData | None:
    """Return the API versions of a Kafka release, for the `api_version` option.

    Returns:
        None without a release, or for one before 0.11. This client does not support such brokers,
        so the option must be wrong, and the versions are negotiated.
    """
    if release is None or release < _OLDEST:
        return None
    try:
        found = _data_of_releases().BrokerVersionData(release)
        return BrokerVersionData(found.broker_version, found.api_versions)
    except KafkaError as error:
        raise KafkaConfigurationError(f"api_version: unknown Kafka release {release!r}") from error


def agreed_versions(
    offered: dict[int, tuple[int, int]], limits: BrokerVersionData | None
) -> BrokerVersionData:
    """Return the API versions that a broker offers, within the limits if there are any.

    A new broker may support no version within the limits; then they are ignored.
    """
    if limits is not None:
        offered = {
            key: _overlap(offer, limits.api_versions[key])
            for key, offer in offered.items()
            if key in limits.api_versions
        }
    # The release is only a label here: kafka-python might fail to infer that of a new broker.
    release = limits.broker_version if limits is not None else _UNKNOWN_RELEASE
    return BrokerVersionData(release, offered)


def _overlap(offer: tuple[int, int], limit: tuple[int, int]) -> tuple[int, int]:
    lowest, highest = max(offer[0], limit[0]), min(offer[1], limit[1])
    return (lowest, highest) if lowest <= highest else offer


def release_of(versions: BrokerVersionData) -> tuple[int, ...] | None:
    """Return the release of a broker, which kafka-python infers from its API versions."""
    if versions.broker_version != _UNKNOWN_RELEASE:
        return tuple(versions.broker_version)
    try:
        infer = _data_of_releases().infer_broker_version_from_api_versions
        return (*infer(versions.api_versions),)
    except (KafkaError, LookupError):
        return None


def _data_of_releases() -> Any:
    return import_module("kafka.protocol.broker_version_data")
