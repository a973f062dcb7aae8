"""A cluster that answers some requests wrongly, for as long as a test wants it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tandem_kafka.wire.framing import decode_message, encode_message
from tandem_kafka_testing import Simulation
from tandem_kafka_testing.cluster.call import Call

__all__ = ["Change", "changing", "errors_in_fetches"]

#: Changes the response to a call; a call that is not changed must not reach it.
Change = Callable[[Any], None]


@contextmanager
def changing(
    simulation: Simulation, response: Any, change_for: Callable[[Call], Change | None]
) -> Iterator[Counter[int]]:
    """Change responses of the brokers, also of requests that they park.

    Args:
        simulation: The cluster.
        response: The message class.
        change_for: Returns the change of the response to a call, None for none.

    Yields:
        How many requests of this kind each broker has received.
    """
    received: Counter[int] = Counter()

    def answer(call: Call) -> Any:
        received[call.broker.node_id] += 1
        change = change_for(call)
        if change is None:
            return call.default()

        def changed(given: Any) -> Any:
            body = memoryview(encode_message(given, call.version))
            copied = decode_message(response, call.version, body)  # the broker may keep it
            change(copied)
            return copied

        deliver = call.deliver
        call.deliver = lambda late, given: deliver(late, changed(given))
        given = call.default()
        return None if given is None else changed(given)

    scripts = simulation.cluster._scripts
    before = scripts.take
    scripts.take = (  # type: ignore[method-assign]
        lambda api_key: answer if api_key == response.API_KEY else before(api_key)
    )
    try:
        yield received
    finally:
        scripts.take = before  # type: ignore[method-assign]


def errors_in_fetches(code: int, partitions: Callable[[int], bool] = lambda _: True) -> Change:
    """Return a change that gives partitions of a fetch response an error, and no records."""

    def change(message: Any) -> None:
        for topic in message.responses:
            for entry in filter(lambda each: partitions(each.partition_index), topic.partitions):
                entry.error_code, entry.records = code, None

    return change
