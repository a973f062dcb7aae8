"""The mistakes: what was done, and what the message names, says why, and says to do.

Each is made in a `Simulation` with a topic "orders" of two partitions, three records in the first.
`connecting.py` has those that need sockets. More wrong values of options are in
`tests/unit/test_config*.py`.
"""

from __future__ import annotations

import threading
from typing import Any, Final

from tandem_kafka import AsyncKafkaConsumer, OffsetAndMetadata, ShareConsumer, TopicPartition
from tandem_kafka.errors import (
    GroupAuthorizationFailedError,
    GroupIdNotFoundError,
    GroupMaxSizeReachedError,
    InconsistentGroupProtocolError,
    KafkaError,
    TopicAuthorizationFailedError,
)
from tandem_kafka.wire.messages import (
    ConsumerGroupHeartbeatRequest,
    JoinGroupRequest,
    MetadataRequest,
)
from tandem_kafka.workers import KeyedWorkers
from tandem_kafka_testing import Call, Simulation
from tests.mistakes.mistake import Mistake

ORDERS: Final = "orders"
FIRST: Final = TopicPartition(ORDERS, 0)
OTHER: Final = TopicPartition("elsewhere", 0)


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


def denied_topic(simulation: Simulation) -> None:
    def refuse(call: Call) -> Any:
        response = call.default()
        for topic in response.topics:
            topic.error_code = TopicAuthorizationFailedError.errno
        return response

    simulation.cluster.script(MetadataRequest, *[refuse] * 3)
    poll(simulation, ORDERS)


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


def two_threads(simulation: Simulation) -> None:
    """Poll in a deserializer, on another thread."""
    found: list[Exception] = []

    def deserialize(data: bytes) -> bytes:
        thread = threading.Thread(target=poll_again, name="another")
        thread.start()
        thread.join()
        return data

    def poll_again() -> None:
        try:
            consumer.poll()
        except Exception as error:  # noqa: BLE001 - of any kind
            found.append(error)

    consumer = simulation.consumer(
        ORDERS, auto_offset_reset="earliest", value_deserializer=deserialize
    )
    while not found:
        [records for records in consumer.poll(1_000).values() for _ in records]
    raise found[0]


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
        "no offsets of elsewhere-0 in 30000 ms",
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
    "a topic without an ACL": Mistake(
        denied_topic,
        "'orders'",
        "this client lacks the right to read",
        "grant it: kafka-acls.sh --add --allow-principal User:... --operation Read --topic orders",
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
        "if it is a group of another kind, such as a share group",
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
        "commits and the calls of a group need",
        "create it with group_id=...",
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
        "was rejected, because this consumer is no longer a member of the group 'readers'",
        "call poll() at least every 10000 ms (max_poll_interval_ms), or reduce max_poll_records",
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
    "two threads": Mistake(
        two_threads,
        "thread 'another' called poll() while 'MainThread' is reading",
        "only one thread at a time may poll or iterate over a consumer",
        "use one consumer per thread",
    ),
    "an argument of confluent-kafka": Mistake(
        lambda s: s.consumer().subscribe([ORDERS], on_assign=print),
        "'on_assign'",
        "subscribe() has no argument",
        "it takes topics, pattern, listener",
    ),
    "an option of librdkafka without a counterpart": Mistake(
        lambda s: s.consumer(ORDERS, queued_min_messages=1),
        "unknown options: 'queued_min_messages'",
        "of librdkafka",
        "leave it out here",
    ),
    "words in another order": Mistake(
        lambda s: s.consumer(ORDERS, auto_commit_enable=True),
        "'auto_commit_enable'",
        "unknown options",
        "did you mean 'enable_auto_commit'?",
    ),
    "a wrong word": Mistake(
        lambda s: s.consumer(ORDERS, auto_offset_reset="first"),
        "auto_offset_reset='first'",
        "must be",
        "'earliest', 'latest', 'none' or 'by_duration:<ISO 8601 duration>'",
    ),
    "a wrong type": Mistake(
        lambda s: s.consumer(ORDERS, max_poll_records="100"),
        "max_poll_records='100'",
        "must be",
        "a whole number of at least 1",
    ),
    "a bad port": Mistake(
        lambda s: s.consumer(ORDERS, bootstrap_servers="localhost:99999"),
        "bootstrap_servers='localhost:99999'",
        "the port '99999' of 'localhost:99999' is not",
        "a number from 1 to 65535",
    ),
    "a URL for a server": Mistake(
        lambda s: s.consumer(ORDERS, bootstrap_servers="http://localhost:9092"),
        "bootstrap_servers='http://localhost:9092'",
        "is not host:port",
        "such as 'localhost:9092'",
    ),
    "an unknown mechanism": Mistake(
        lambda s: s.consumer(ORDERS, security_protocol="SASL_SSL", sasl_mechanism="PLAINN"),
        "sasl_mechanism='PLAINN'",
        "must be",
        "'PLAIN', 'SCRAM-SHA-256', 'SCRAM-SHA-512'",
    ),
    "no password": Mistake(
        lambda s: s.consumer(
            ORDERS,
            security_protocol="SASL_SSL",
            sasl_mechanism="PLAIN",
            sasl_plain_username="alice",
        ),
        "sasl_mechanism='PLAIN'",
        "needs",
        "sasl_plain_password",
    ),
    "a deserializer that is no function": Mistake(
        lambda s: s.consumer(ORDERS, value_deserializer="json"),
        "value_deserializer='json'",
        "must be",
        "a callable that takes bytes, an object with deserialize(topic, headers, data), or None",
    ),
    "a topic that does not exist": Mistake(
        lambda s: poll(s, "ordres", group_id="readers"),
        "the topic 'ordres'",
        "does not exist, or this client may not see it; there are no records until it appears",
        "check the name",
    ),
}
