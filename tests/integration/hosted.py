"""A process with consumers in it that does what another one tells it, by `hosts.RealHost`.

Each order is `(number, method, arguments, options)`, pickled: `make` makes a consumer,
`awaits_others` looks at one, everything else is a method of the one with that number. The answer
says what came of it, and what the consumer's listener has been told so far.
"""

from __future__ import annotations

import pickle
import sys
from typing import Any

from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka.request_managers.membership.classic.classic_states import State
from tests.integration.polling import Listener

__all__ = ["Answer", "awaits_others"]

#: Whether it worked; the result, or the error; what the listener was told.
Answer = tuple[bool, Any, list[tuple[str, set[TopicPartition]]]]


def awaits_others(consumer: KafkaConsumer) -> bool:
    """Whether a classic member has sent JoinGroup or SyncGroup and has no answer."""
    membership: Any = consumer._core.engine.loop._managers.group.membership  # type: ignore[attr-defined]
    rebalancing = membership.state in (State.PREPARING_REBALANCE, State.COMPLETING_REBALANCE)
    return bool(rebalancing and membership._request.in_flight)


class _Consumers:
    def __init__(self) -> None:
        self._made: list[tuple[KafkaConsumer, Listener]] = []

    def obey(self, number: int, method: str, arguments: Any, options: Any) -> Answer:
        if method == "make":
            self._made.append((KafkaConsumer(**options), Listener()))
            return True, len(self._made) - 1, []
        consumer, listener = self._made[number]
        if method == "subscribe":
            options["listener"] = listener
        if method == "awaits_others":
            return True, awaits_others(consumer), listener.calls
        try:
            result = getattr(consumer, method)(*arguments, **options)
        except Exception as error:  # noqa: BLE001 - raised where the order came from
            return False, error, listener.calls
        if method == "poll":
            result = {tp: list(records) for tp, records in result.items()}
        return True, result, listener.calls


def main() -> None:
    """Obey until there are no more orders."""
    consumers = _Consumers()
    orders, answers = sys.stdin.buffer, sys.stdout.buffer
    while True:
        try:
            order = pickle.load(orders)
        except EOFError:
            return
        pickle.dump(consumers.obey(*order), answers)
        answers.flush()


if __name__ == "__main__":
    main()
