"""The consumers of this process, for their diagnosis and for a warning about equal names."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tandem_kafka.consumer.core import Core
from tandem_kafka.logs import client_logger
from tandem_kafka.state.subscription import SubscriptionKind

if TYPE_CHECKING:
    from tandem_kafka.consumer.health import Health

log = client_logger(__name__)

#: The default of `tandem_kafka.confluent`, as in librdkafka: nobody chose it.
_UNNAMED: Final = "rdkafka"

#: The consumers of this process that have not been collected, and what tells their health.
_cores: Final[weakref.WeakKeyDictionary[Core, Callable[[Core], Health]]] = (
    weakref.WeakKeyDictionary()
)


def remember(core: Core, health: Callable[[Core], Health]) -> None:
    """Note a consumer for `diagnose_on_signal`, and what tells its health."""
    _cores[core] = health


def known_cores() -> tuple[Core, ...]:
    """Return the consumers that have not been collected, closed ones included."""
    return tuple(_cores)


def health_of(core: Core) -> Health:
    """Return the health of a consumer; any thread may call this, and it waits for nothing."""
    return _cores[core](core)


def warn_of_namesake(core: Core) -> None:
    """Warn if one other open consumer of this process has the same `client_id`."""
    named = [
        each
        for each in known_cores()
        if each.config.client_id == core.config.client_id
        and each.in_own_process
        and not each.closing
    ]
    if len(named) == 2 and core.config.client_id != _UNNAMED:  # once, not for all that follow
        [other] = (each for each in named if each is not core)
        log.warning(
            "client_id=%r is also that of another consumer of this process, so metrics, quotas and "
            "the logs of brokers mix them up: give each its own, or none; this one: %s; the other: "
            "%s",
            core.config.client_id,
            _purpose(core),
            _purpose(other),
            client=core.client,
        )


def _purpose(core: Core) -> str:
    group_id = core.config.group_id
    group = "no group" if group_id is None else f"group {group_id!r}"
    return f"{group}, {subscription_of(core)}"


def subscription_of(core: Core) -> str:
    """Return to what a consumer is subscribed, as text."""
    subscription = core.engine.subscription
    if subscription.kind is SubscriptionKind.NONE:
        return "none; call subscribe() or assign()"
    if subscription.kind is SubscriptionKind.USER_ASSIGNED:
        return "partitions of assign()"
    topics = ", ".join(sorted(subscription.topics)) or "no topics"
    if subscription.regex is not None:
        return f"pattern {subscription.regex!r}, which the coordinator matches"
    if subscription.pattern is not None:
        return f"pattern {subscription.pattern.pattern!r}, which matches {topics}"
    return topics
