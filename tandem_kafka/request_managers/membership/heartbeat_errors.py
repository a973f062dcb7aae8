"""What is wrong with a ConsumerGroupHeartbeat, in words that say what to do about it."""

from __future__ import annotations

from typing import Any

from tandem_kafka.errors import (
    InvalidRegularExpressionError,
    KafkaError,
    UnsupportedVersionError,
    for_code,
)
from tandem_kafka.request_managers.context import ManagerContext

__all__ = ["error_of", "explained"]

INVALID_REGULAR_EXPRESSION = 128


def error_of(message: Any) -> KafkaError:
    """Return the error of an answer, with the coordinator's own words."""
    text = message.error_message or ""
    if message.error_code == INVALID_REGULAR_EXPRESSION:
        return InvalidRegularExpressionError(text)
    error: KafkaError = for_code(message.error_code)(text)
    return error


def explained(error: UnsupportedVersionError, context: ManagerContext) -> UnsupportedVersionError:
    """Say what to do where the cluster does not know the request."""
    if context.config.group_local_assignors:
        advice = (
            "the cluster does not let members compute an assignment, as no released broker does; "
            "leave group_local_assignors out"
        )
    elif context.subscription.regex is not None:
        advice = (
            "the cluster cannot resolve a regular expression (SubscriptionPattern needs "
            "ConsumerGroupHeartbeat version 1); subscribe to names or a Python pattern"
        )
    else:
        advice = (
            "the cluster does not support the consumer group protocol (KIP-848); "
            "set group_protocol='classic'"
        )
    found = UnsupportedVersionError(f"{advice}: {error}")
    found.__cause__ = error
    return found
