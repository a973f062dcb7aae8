"""A process with consumers that `hosts.RealHost` controls.

Each command is `(number, method, arguments, options)`, pickled. `make` creates a consumer and
`join_or_sync_in_flight` inspects one. Any other method is called on the consumer with that number.
The outcome has the result and all calls of the consumer's listener so far.
"""

from __future__ import annotations

import pickle
import sys
from typing import Any

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka.request_managers.membership.classic.states import State
from tests.integration.polling import Listener

__all__ = ["Outcome", "join_or_sync_in_flight"]

#: Whether it worked; the result, or the error; the calls of the listener.
Outcome = tuple[bool, Any, list[tuple[str, set[TopicPartition]]]]


def join_or_sync_in_flight(consumer: KafkaConsumer) -> bool:
    """Return whether JoinGroup or SyncGroup of a classic member is in flight."""
    membership: Any = consumer._core.engine.loop._managers.group.membership  # type: ignore[attr-defined]
    rebalancing = membership.state in (State.PREPARING_REBALANCE, State.COMPLETING_REBALANCE)
    return bool(rebalancing and membership._request.in_flight)


class _Consumers:
    def __init__(self) -> None:
        self._made: list[tuple[KafkaConsumer, Listener]] = []

    def obey(self, number: int, method: str, arguments: Any, options: Any) -> Outcome:
        if method == "make":
            self._made.append((KafkaConsumer(**options), Listener()))
            return True, len(self._made) - 1, []
        consumer, listener = self._made[number]
        if method == "subscribe":
            options["listener"] = listener
        if method == "join_or_sync_in_flight":
            return True, join_or_sync_in_flight(consumer), listener.calls
        try:
            result = getattr(consumer, method)(*arguments, **options)
        except Exception as error:  # noqa: BLE001 - raised in the controlling process
            return False, error, listener.calls
        if method == "poll":
            result = {tp: list(records) for tp, records in result.items()}
        return True, result, listener.calls


def main() -> None:
    """Run commands until there are no more."""
    consumers = _Consumers()
    orders, responses = sys.stdin.buffer, sys.stdout.buffer
    while True:
        try:
            order = pickle.load(orders)
        except EOFError:
            return
        pickle.dump(consumers.obey(*order), responses)
        responses.flush()


if __name__ == "__main__":
    main()
