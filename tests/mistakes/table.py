"""The mistakes: what was done, and what the message names, says why, and says to do.

Each is made in a `Simulation` with a topic "orders" of two partitions, three records in the first.
Mistakes with options are in `tests/unit/test_config*.py`, and those that need TLS, a login or an
ACL in `tests/integration/test_security.py` and `test_permissions.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

ORDERS: Final = "orders"


@dataclass(frozen=True)
class Mistake:
    """What was done, and words of its message.

    Attributes:
        make: Does it in a `Simulation`. An error, or else lines of the log, is the message.
        thing: What it is about.
        why: Why it does not work.
        cure: What to do.
    """

    make: Callable[[Any], object]
    thing: str
    why: str
    cure: str


MISTAKES: Final[dict[str, Mistake]] = {
    "options of librdkafka": Mistake(
        lambda s: s.consumer({"bootstrap.servers": "broker:9092"}),
        "{'bootstrap.servers': 'broker:9092'}",
        "a topic must be a str",
        "options are keyword arguments: KafkaConsumer('orders', bootstrap_servers=...); for "
        "librdkafka's properties, use tandem_kafka.confluent.Consumer",
    ),
    "a list in the constructor": Mistake(
        lambda s: s.consumer(["orders", "bills"]),
        "['orders', 'bills']",
        "a topic must be a str",
        "KafkaConsumer('a', 'b') and subscribe(['a', 'b']) take the names",
    ),
    "a pattern as a name": Mistake(
        lambda s: s.consumer("ord.*"),
        '"ord.*"',
        "is illegal, it contains a character other than ASCII alphanumerics",
        "for a pattern, subscribe(pattern='ord.*')",
    ),
    "a string for a list": Mistake(
        lambda s: s.consumer().subscribe("orders"),
        "'orders'",
        "topics must be a collection of names",
        "pass ['orders']",
    ),
}
