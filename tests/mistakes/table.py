"""The mistakes: what was done, and what the message names, says why, and says to do.

Each is made in a `Simulation` with a topic "orders" of two partitions, three records in the first.
Mistakes with options are in `tests/unit/test_config*.py`, and those that need TLS, a login or an
ACL in `tests/integration/test_security.py` and `test_permissions.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tandem_kafka import OffsetAndMetadata, TopicPartition
from tandem_kafka.errors import GroupAuthorizationFailedError, GroupMaxSizeReachedError
from tandem_kafka.wire.messages import ConsumerGroupHeartbeatRequest
from tandem_kafka_testing import Call, Simulation

ORDERS: Final = "orders"
FIRST: Final = TopicPartition(ORDERS, 0)
OTHER: Final = TopicPartition("elsewhere", 0)


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


def poll(simulation: Simulation, *topics: Any, seconds: int = 20, **options: Any) -> None:
    """Poll once a second."""
    consumer = simulation.consumer(*topics, **options)
    for _ in range(seconds):
        consumer.poll(1_000)


def refuse_heartbeats(simulation: Simulation, code: int) -> None:
    """Let the coordinator answer with an error."""

    def refuse(call: Call) -> Any:
        response = call.default()
        response.error_code = code
        return response

    simulation.cluster.script(ConsumerGroupHeartbeatRequest, *[refuse] * 3)


def denied_group(simulation: Simulation) -> None:
    refuse_heartbeats(simulation, GroupAuthorizationFailedError.errno)
    poll(simulation, ORDERS, group_id="readers", group_protocol="consumer")


def full_group(simulation: Simulation) -> None:
    refuse_heartbeats(simulation, GroupMaxSizeReachedError.errno)
    poll(simulation, ORDERS, group_id="readers", group_protocol="consumer")


def beyond_the_end(simulation: Simulation) -> None:
    consumer = simulation.consumer(auto_offset_reset="none")
    consumer.assign([FIRST])
    consumer.seek(FIRST, 1_000_000)
    for _ in range(3):
        consumer.poll(1_000)


def no_such_partition(simulation: Simulation) -> None:
    consumer = simulation.consumer()
    consumer.assign([FIRST, TopicPartition(ORDERS, 7)])
    for _ in range(3):
        consumer.poll(1_000)
    assert "none is 7" in consumer.health().troubles[0]


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
    "an offset beyond the end": Mistake(
        beyond_the_end,
        "offset 1000000 of orders-0",
        "is not in the log (too old, beyond its end, or the topic was recreated), and "
        "auto_offset_reset='none'",
        "call seek(), or set auto_offset_reset; beginning_offsets() and end_offsets() return the",
    ),
    "a partition that does not exist": Mistake(
        no_such_partition,
        "the topic 'orders' has 2 partitions, counted from 0",
        "none is 7",
        "correct assign(), or add partitions",
    ),
    "poll() without a subscription": Mistake(
        poll,
        "poll() returns nothing",
        "without a subscription",
        "call subscribe() or assign()",
    ),
    "text for a number": Mistake(
        lambda s: s.consumer(ORDERS).poll("1000"), "timeout_ms", "got '1000'", "must be a number of"
    ),
    "a commit for a topic that does not exist": Mistake(
        lambda s: s.consumer(group_id="readers").commit({OTHER: OffsetAndMetadata(3, "", -1)}),
        "commit() did not finish in time: elsewhere-0",
        "the partition does not exist, or this client may not see it",
        "check the name",
    ),
    "much metadata of an offset": Mistake(
        lambda s: s.consumer(group_id="readers").commit(
            {FIRST: OffsetAndMetadata(3, "x" * 5_000, -1)}
        ),
        "orders-0",
        "the metadata of the offset is longer than offset.metadata.max.bytes of the brokers",
        "shorten it",
    ),
    "a look-up of a topic that does not exist": Mistake(
        lambda s: s.consumer().end_offsets([OTHER]),
        "for elsewhere-0",
        "the partition does not exist, or this client may not see it",
        "check the name",
    ),
    "a seek before the first poll()": Mistake(
        lambda s: s.consumer(ORDERS, group_id="readers").seek(FIRST, 0),
        "partition orders-0",
        "No current assignment",
        "poll() until it is assigned, or make the call in on_partitions_assigned()",
    ),
    "a seek without assign()": Mistake(
        lambda s: s.consumer().seek(FIRST, 0),
        "partition orders-0",
        "No current assignment",
        "subscribe() or assign() first",
    ),
    "a session timeout in seconds": Mistake(
        lambda s: poll(
            s,
            ORDERS,
            group_id="readers",
            group_protocol="classic",
            session_timeout_ms=45,
            heartbeat_interval_ms=10,
        ),
        "session_timeout_ms=45 (milliseconds)",
        "the coordinator of the group 'readers' rejects",
        "set one between group.min.session.timeout.ms and group.max.session.timeout.ms",
    ),
    "a group without an ACL": Mistake(
        denied_group,
        "the group 'readers'",
        "this client may not read",
        "grant it: kafka-acls.sh --add --allow-principal User:... --operation Read --group readers",
    ),
    "a member too many": Mistake(
        full_group,
        "the group 'readers'",
        "is full",
        "stop a member, or increase the limit of the brokers",
    ),
    "a string for a list": Mistake(
        lambda s: s.consumer().subscribe("orders"),
        "'orders'",
        "topics must be a collection of names",
        "pass ['orders']",
    ),
}
