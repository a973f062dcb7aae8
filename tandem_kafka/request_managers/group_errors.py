"""The errors of a group's coordinator, with the next step if the user must act."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from typing import Final

from tandem_kafka.config import Config
from tandem_kafka.errors import (
    FencedInstanceIdError,
    GroupAuthorizationFailedError,
    GroupMaxSizeReachedError,
    InconsistentGroupProtocolError,
    InvalidCommitOffsetSizeError,
    InvalidSessionTimeoutError,
    KafkaError,
    OffsetMetadataTooLargeError,
    UnreleasedInstanceIdError,
    acl_command,
    for_code,
    reason_of,
)

__all__ = ["advised", "group_error", "other_kind"]


def _no_common_assignor(config: Config) -> str:
    names = ", ".join(str(each.name) for each in config.partition_assignment_strategy)
    show = f"tandem-kafka groups -g {shlex.quote(str(config.group_id))}"
    return (
        f"group {config.group_id!r} has no assignor in common with this member, which supports "
        f"{names}; set partition_assignment_strategy to that of the group (`{show}` shows its "
        "protocol and assignor); before you remove an assignor, add a common one to all members; "
        "if it is a group of another kind, such as a share group or one of Kafka Connect, use "
        "another group_id"
    )


def other_kind(error: Exception, config: Config) -> Exception:
    """Return the error of a member that cannot join, as no group of its kind has that name."""
    if config.shares:
        advice = "is no share group; use another group_id for ShareConsumer"
    else:
        advice = (
            "takes no members with group_protocol='consumer'; use another group_id if it is of "
            "another kind (`tandem-kafka groups` shows it), or group_protocol='classic'"
        )
    text = f"the group {config.group_id!r} exists and {advice}: {reason_of(error)}"
    found = type(error)(text)
    found.__cause__ = error
    return found


def _fenced(config: Config) -> str:
    return (
        f"another member of the group {config.group_id!r} has taken over "
        f"group_instance_id={config.group_instance_id!r}; give each process an id of its own, and "
        "subscribe again"
    )


def _denied(config: Config) -> str:
    cure = acl_command("Read", "group", str(config.group_id))
    return f"this client may not read the group {config.group_id!r}; grant it: {cure}"


def _session_timeout(config: Config) -> str:
    return (
        f"the coordinator of the group {config.group_id!r} rejects session_timeout_ms="
        f"{config.session_timeout_ms} (milliseconds); set one between "
        "group.min.session.timeout.ms and group.max.session.timeout.ms of the brokers, by default "
        "6000 and 1800000"
    )


def _full(config: Config) -> str:
    return (
        f"the group {config.group_id!r} is full; stop a member (`tandem-kafka groups -g` shows "
        "them), or increase the limit of the brokers (group.max.size, group.consumer.max.size or "
        "group.share.max.size)"
    )


def _long_metadata(_: Config) -> str:
    return (
        "the metadata of the offset is longer than offset.metadata.max.bytes of the brokers, by "
        "default 4096 bytes; shorten it"
    )


def _held(config: Config) -> str:
    return (
        f"another member of the group {config.group_id!r} has group_instance_id="
        f"{config.group_instance_id!r}; give each process an id of its own, or wait until the "
        "session of that member has ended, and subscribe again"
    )


_NEXT_STEPS: Final[Mapping[type[Exception], Callable[[Config], str]]] = {
    FencedInstanceIdError: _fenced,
    GroupAuthorizationFailedError: _denied,
    GroupMaxSizeReachedError: _full,
    InconsistentGroupProtocolError: _no_common_assignor,
    InvalidCommitOffsetSizeError: _long_metadata,
    InvalidSessionTimeoutError: _session_timeout,
    OffsetMetadataTooLargeError: _long_metadata,
    UnreleasedInstanceIdError: _held,
}


def group_error(code: int, config: Config, said: str | None = None) -> KafkaError:
    """Return the error for a code.

    Args:
        code: The error code.
        config: The options of the member.
        said: The coordinator's own words, if any.
    """
    error: type[KafkaError] = for_code(code)
    explain = _NEXT_STEPS.get(error)
    if explain is None:
        return error(said or f"group {config.group_id!r}")
    return error("; the coordinator says: ".join(filter(None, (explain(config), said))))


def advised(error: Exception, config: Config) -> Exception:
    """Return the error of a commit with the next step; others as they are."""
    explain = _NEXT_STEPS.get(type(error))
    return error if explain is None else type(error)(f"{reason_of(error)}: {explain(config)}")
