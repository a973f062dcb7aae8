"""The mistakes: what was done, and what the message names, says why, and says to do.

Each is made in a `Simulation` with a topic "orders" of two partitions, three records in the first.
Wrong values of options are in `tests/unit/test_config*.py`, and those that need TLS, a login or an
ACL in `tests/integration/test_security.py` and `test_permissions.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tandem_kafka import AsyncKafkaConsumer, OffsetAndMetadata, ShareConsumer, TopicPartition
from tandem_kafka.errors import (
    GroupAuthorizationFailedError,
    GroupIdNotFoundError,
    GroupMaxSizeReachedError,
    InconsistentGroupProtocolError,
    KafkaError,
)
from tandem_kafka.wire.messages import ConsumerGroupHeartbeatRequest, JoinGroupRequest
from tandem_kafka.workers import KeyedWorkers
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


def refused(simulation: Simulation, error: type[KafkaError], protocol: str = "consumer") -> None:
    """Poll in a group whose coordinator rejects the member."""

    def refuse(call: Call) -> Any:
        response = call.default()
        response.error_code = error.errno
        return response

    joining = ConsumerGroupHeartbeatRequest if protocol == "consumer" else JoinGroupRequest
    simulation.cluster.script(joining, *[refuse] * 3)
    poll(simulation, ORDERS, group_id="readers", group_protocol=protocol)


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


def twice(simulation: Simulation, **options: Any) -> None:
    """Poll in two members with the same options, of which one gets an error."""
    members = [simulation.consumer(ORDERS, group_id="readers", **options) for _ in range(2)]
    for _ in range(10):
        for member in members:
            member.poll(1_000)


def slow_handler(simulation: Simulation) -> None:
    consumer = simulation.consumer(
        ORDERS, group_id="readers", max_poll_interval_ms=10_000, enable_auto_commit=False
    )
    for _ in range(5):
        consumer.poll(1_000)
    simulation.sleep(60_000)
    consumer.commit()


def no_common_assignor(simulation: Simulation) -> None:
    poll(simulation, ORDERS, group_id="readers", partition_assignment_strategy=["range"])
    poll(simulation, ORDERS, group_id="readers", partition_assignment_strategy=["sticky"])


async def coroutine(_: object) -> None: ...


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
    "a lookup of a topic that does not exist": Mistake(
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
        lambda s: refused(s, GroupAuthorizationFailedError),
        "the group 'readers'",
        "this client may not read",
        "grant it: kafka-acls.sh --add --allow-principal User:... --operation Read --group readers",
    ),
    "a member too many": Mistake(
        lambda s: refused(s, GroupMaxSizeReachedError),
        "the group 'readers'",
        "is full",
        "stop a member (`tandem-kafka groups -g` shows them), or increase the limit",
    ),
    "the group of another kind": Mistake(
        lambda s: refused(s, GroupIdNotFoundError),
        "the group 'readers' exists",
        "takes no members with group_protocol='consumer'",
        "use another group_id if it is of another kind (`tandem-kafka groups` shows it), or "
        "group_protocol='classic'",
    ),
    "the group of share consumers": Mistake(
        lambda s: refused(s, InconsistentGroupProtocolError, "classic"),
        "group 'readers'",
        "or it is a group of another kind, such as a share group",
        "use another group_id",
    ),
    "a string for a list": Mistake(
        lambda s: s.consumer().subscribe("orders"),
        "'orders'",
        "topics must be a collection of names",
        "pass ['orders']",
    ),
    "a datetime for milliseconds": Mistake(
        lambda s: s.consumer().offsets_for_times({FIRST: "2026-01-01"}),
        "the timestamp of TopicPartition(topic='orders', partition=0)",
        "must be a number of milliseconds since 1970, got '2026-01-01'",
        "of a datetime it is int(at.timestamp() * 1000)",
    ),
    "an option of the producer": Mistake(
        lambda s: s.consumer(ORDERS, value_serializer=str),
        "unknown options: 'value_serializer'",
        "an option of KafkaProducer",
        "of a consumer: 'value_deserializer'",
    ),
    "an option of librdkafka": Mistake(
        lambda s: s.consumer(ORDERS, **{"fetch.message.max.bytes": 1_000}),
        "unknown options: 'fetch.message.max.bytes'",
        "of librdkafka",
        "here it is 'max_partition_fetch_bytes'",
    ),
    "an option of aiokafka": Mistake(
        lambda s: s.consumer(ORDERS, loop=None),
        "unknown options: 'loop'",
        "takes the event loop that runs",
        "AsyncKafkaConsumer",
    ),
    "topics as an option": Mistake(
        lambda s: s.consumer(topics=[ORDERS]),
        "unknown options: 'topics'",
        "topics come first, without a name",
        "KafkaConsumer('orders', ...)",
    ),
    "an invented option": Mistake(
        lambda s: s.consumer(ORDERS, zzz=1),
        "'zzz'",
        "unknown options",
        "help(KafkaConsumer) describes all options",
    ),
    "a dotted name": Mistake(
        lambda s: s.consumer(ORDERS, **{"group.id": "readers"}),
        "'group.id'",
        "unknown options",
        "write it with underscores: 'group_id'",
    ),
    "a typo": Mistake(
        lambda s: s.consumer(ORDERS, grop_id="readers"),
        "'grop_id'",
        "unknown options",
        "did you mean 'group_id'?",
    ),
    "a static id twice": Mistake(
        lambda s: twice(s, group_instance_id="one", group_protocol="consumer"),
        "group_instance_id='one'",
        "another member of the group 'readers' has",
        "give each process an id of its own, or wait until the session of that member has ended",
    ),
    "a static id taken over": Mistake(
        lambda s: twice(s, group_instance_id="one", group_protocol="classic"),
        "group_instance_id='one'",
        "another member of the group 'readers' has taken over",
        "give each process an id of its own",
    ),
    "a commit without a group": Mistake(
        lambda s: s.consumer(ORDERS).commit(),
        "group_id",
        "To use the group management or offset commit APIs",
        "you must provide group_id in the consumer configuration",
    ),
    "a number for an offset to commit": Mistake(
        lambda s: s.consumer(group_id="readers").commit({FIRST: 3}),
        "the offset of TopicPartition(topic='orders', partition=0)",
        "got 3",
        "must be an OffsetAndMetadata",
    ),
    "a name for a partition": Mistake(
        lambda s: s.consumer(group_id="readers").committed(ORDERS),
        "partition",
        "got 'orders' of type builtins.str",
        "must be a tandem_kafka.TopicPartition",
    ),
    "assign() after subscribe()": Mistake(
        lambda s: s.consumer(ORDERS).assign([FIRST]),
        "Cannot subscribe to partitions: already subscribed to topics",
        "topics, patterns and partitions are mutually exclusive",
        "call unsubscribe() first",
    ),
    "a function as a listener": Mistake(
        lambda s: s.consumer().subscribe([ORDERS], listener=print),
        "listener",
        "builtin_function_or_method has no on_partitions_revoked",
        "must have the methods on_partitions_revoked, on_partitions_assigned",
    ),
    "a deserializer that fails": Mistake(
        lambda s: poll(s, ORDERS, auto_offset_reset="earliest", value_deserializer=lambda _: 1 / 0),
        "the value of orders-0 at offset 0",
        "ZeroDivisionError: division by zero",
        "seek to offset 1 to skip the record",
    ),
    "poll_arrow() with a deserializer": Mistake(
        lambda s: s.consumer(ORDERS, value_deserializer=str).poll_arrow(),
        "key_deserializer or value_deserializer",
        "poll_arrow() returns bytes and cannot be used with",
        "create the consumer without them, and decode the columns",
    ),
    "no committed offset": Mistake(
        lambda s: poll(s, ORDERS, group_id="readers", auto_offset_reset="none"),
        "TopicPartition(topic='orders', partition=0)",
        "no committed offset for",
        "call seek(), commit an offset, or set auto_offset_reset",
    ),
    "a handler that takes too long": Mistake(
        slow_handler,
        "the commit of orders-0, orders-1",
        "was rejected, because this consumer is no longer a member of the group",
        "call poll() more often, or reduce max_poll_records",
    ),
    "members without a common assignor": Mistake(
        no_common_assignor,
        "group 'readers' has no assignor in common with this member",
        "which supports sticky",
        "add a common one to all members",
    ),
    "workers with auto-commit": Mistake(
        lambda s: KeyedWorkers(s.consumer(ORDERS, group_id="readers"), print),
        "enable_auto_commit=True",
        "would commit records that are not done",
        "create it with enable_auto_commit=False",
    ),
    "a coroutine as a handler": Mistake(
        lambda s: KeyedWorkers(
            s.consumer(ORDERS, group_id="readers", enable_auto_commit=False), coroutine
        ),
        "handle must be an ordinary function",
        "got the coroutine function",
        "use AsyncKeyedWorkers",
    ),
    "AsyncKafkaConsumer without a start": Mistake(
        lambda _: AsyncKafkaConsumer(ORDERS).assignment(),
        "the consumer",
        "has not been started",
        "use `async with consumer:` or `await consumer.start()`",
    ),
    "a share consumer without a group": Mistake(
        lambda _: ShareConsumer(ORDERS),
        "ShareConsumer",
        "needs group_id=...",
        "the name of its share group",
    ),
    "a topic that does not exist": Mistake(
        lambda s: poll(s, "ordres", group_id="readers"),
        "the topic 'ordres'",
        "does not exist, or this client may not see it; there are no records until it appears",
        "check the name",
    ),
}
