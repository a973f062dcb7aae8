"""The differences from kafka-python's consumer: the source of `docs/coming-from/kafka-python.md`.

python -m tests.parity.differences > docs/coming-from/kafka-python.md
"""

from __future__ import annotations

import sys

from kafka import KafkaConsumer as Theirs

from tandem_kafka import KafkaConsumer

__all__ = ["ATTRIBUTES", "DEFAULTS", "page"]

#: Options whose defaults differ.
DEFAULTS = {
    "client_id": (
        "`None` becomes `consumer-<group>-<number>`, so broker logs distinguish the consumers"
    ),
    "max_partition_fetch_bytes": (
        "faster; the consumer asks for 1 MiB at first, and for more while responses are full"
    ),
    "reconnect_backoff_max_ms": (
        "reading continues within a second after an outage; the Java client's default"
    ),
}

#: Public attributes of kafka-python's class that ours does not have.
ATTRIBUTES = {
    "DEFAULT_SESSION_TIMEOUT_MS_PRE_KIP_735": (
        "it served brokers before 3.0; the session timeout is now the same for all brokers"
    ),
}

#: Observable differences: the subject, kafka-python's behaviour, ours, the reason.
BEHAVIOUR = (
    (
        "A handler takes longer than `session_timeout_ms`, or holds the GIL",
        "the member may lose its partitions",
        "heartbeats continue, up to `max_poll_interval_ms`",
        "the network thread sends them",
    ),
    (
        "A listener calls `commit()`, `position()` or `committed()`",
        "the call raises `RuntimeError`",
        "the call works",
        "listeners run on the polling thread",
    ),
    (
        "A listener without a `group_id`",
        "is never called",
        "is called",
        "a program that seeks in its listener works with and without a group",
    ),
    (
        "A listener before the first join",
        "`on_partitions_revoked(set())` is called",
        "is not called",
        "nothing is revoked",
    ),
    (
        "A listener raises",
        "the error is logged, and the listener is not called again",
        "`poll()` raises `RebalanceCallbackError`, and the next `poll()` calls the listener again",
        "otherwise records of partitions that are not set up would be returned",
    ),
    (
        "A deserializer raises",
        "`poll()` raises the error",
        (
            "`poll()` first returns the earlier records; the error is also a "
            "`RecordDeserializationError`"
        ),
        "the error names the record and the offset to seek to",
    ),
    (
        "`position()` without `timeout_ms`, and no offset can be found",
        "waits without a limit",
        "raises `KafkaTimeoutError` after `default_api_timeout_ms`",
        "every wait has a limit",
    ),
    (
        "A commit during a rebalance, or after the membership has ended",
        "`CommitFailedError`",
        (
            "`CommitDuringRebalanceError`, a subclass, if `poll()` and another commit are enough; "
            "otherwise `CommitFailedError`"
        ),
        "the program knows whether it is still a member",
    ),
    (
        "Callbacks of `commit_async()`",
        "run newest first",
        "run in the order of the commits",
        "the last callback belongs to the last commit",
    ),
    (
        "Iteration with nothing subscribed and no `consumer_timeout_ms`",
        "waits without a limit",
        "ends, and logs a warning",
        "a program with one thread could not subscribe while it waits",
    ),
    (
        "A subscribed topic is deleted, without a `group_id`",
        "its partitions leave the assignment",
        "they stay, and are read again if the topic returns",
        "a broker that has just started may not know the topic yet",
    ),
    (
        "Two threads poll one consumer",
        "undefined",
        "the second thread gets `ConcurrentModificationError`",
        "the records would be split between them in any order",
    ),
    (
        "`close()` while another thread is inside `poll()`",
        "undefined",
        "`poll()` returns, and the consumer leaves its group",
        "any thread, for example that of a signal handler, may close it",
    ),
    (
        "A consumer is used after a fork",
        "undefined",
        "`ForkedConsumerError`",
        "its thread and connections belong to the parent process",
    ),
    (
        "`json.dumps()` of the records of a partition",
        "works, if the fields can be serialized",
        "raises `TypeError`; `json.dumps(list(records))` and single records work",
        (
            "the records become Python objects only when they are read, and `json` accepts "
            "real lists only"
        ),
    ),
    (
        "A consumer is dropped without `close()`",
        "its thread continues",
        "`ResourceWarning`, and its thread ends",
        "a program that forgets consumers does not run out of threads and connections",
    ),
    (
        "Private attributes (`_client`, `_fetcher`, `_coordinator`, ...)",
        "exist",
        (
            "what agents and monitors read exists: `_closed`, `_subscription.subscription`, "
            "`_coordinator._generation`, `_client.cluster` and a few more, read-only"
        ),
        "the implementation is different",
    ),
    (
        "`metrics()` of a consumer that reads topics",
        "`fetch-size-avg` and others of the last topic replace the totals",
        "each topic has a separate group, `consumer-fetch-manager-metrics.topic-<name>`",
        "both can be read",
    ),
    (
        "A metric reporter is notified of a new metric",
        "by any thread",
        "in the constructor, in `poll()` or in `close()`",
        "the network thread runs no user code",
    ),
    (
        "`api_version` before (0, 11), or one that the broker no longer supports",
        "the broker closes each connection, and nothing is read",
        "versions are negotiated with the broker",
        "the program works",
    ),
    (
        "The first `poll()` after an assignment, with records in several partitions of a broker",
        "returns the records of one fetch of all partitions",
        "may return those of one half; the next `poll()` returns the others",
        "two fetches for each broker are in flight, each for half of the partitions",
    ),
    (
        "The library of a compression codec is missing",
        "`poll()` raises `UnsupportedCodecError`",
        "the records are read",
        "all codecs are part of this package or its dependencies",
    ),
)

INTRODUCTION = """\
# Coming from kafka-python

`tandem_kafka.KafkaConsumer` has the methods, parameters and options of kafka-python 3.0's
`KafkaConsumer`. This page shows how to switch, and lists every known difference.

<!-- Made by `python -m tests.parity.differences`; edit the text there. -->

## Switch

Change the import:

```python
from tandem_kafka import KafkaConsumer, TopicPartition  # was: from kafka import ...

with KafkaConsumer(
    "orders", bootstrap_servers="localhost:9092", group_id="billing", auto_offset_reset="earliest"
) as consumer:
    for partition, records in consumer.poll(timeout_ms=5000).items():
        print(partition, len(records))
```

`KafkaProducer`, `KafkaAdminClient`, `OffsetAndMetadata`, `ConsumerRebalanceListener`, `IsolationLevel`
and the other names are kafka-python's own, and can be imported from `tandem_kafka` too. Keep your
producer: this package has none.

If you cannot change the import, for example in a framework, call `install()` before the framework is
imported. From then on, `kafka.KafkaConsumer` is this consumer.

```python
import tandem_kafka
from tandem_kafka import KafkaConsumer

tandem_kafka.install()
from kafka import KafkaConsumer as Installed

print(Installed is KafkaConsumer)
tandem_kafka.uninstall()
```

Instrumentation for kafka-python (OpenTelemetry, Elastic APM, Datadog) patches `kafka.KafkaConsumer` only. Call
`install()` before you activate it, or use [our own spans](../how-to/tracing.md).

Other clients may be in the same group. Committed offsets stay, so you can switch back at any time.

## From kafka-python 2.x

This package depends on kafka-python 3.0 and installs it for the whole environment: **your producer and your admin client
change, too**. Upgrade them first, and test. To keep 2.x for them, give the consumer an environment of its own. Uninstall
`kafka-python-ng` before: it installs a package of the same name, `kafka`. Python 3.11 or newer is needed.

Changes of the producer:

| 2.x | 3.0 |
|---|---|
| `acks=1` by default | `acks="all"` by default: slower, and no acknowledged record is lost with a leader |
| `enable_idempotence=False` by default | on by default. Brokers before 2.8 need the ACL `IdempotentWrite` on the cluster for it |
| `acks=1`, `retries=0` or more than five requests in flight, set by you | work as before; idempotence is then off, with a warning |
| functions as `key_serializer`, `value_serializer` | work, with a `DeprecationWarning`; a class has `serialize(topic, headers, data)` |
| a function as `partitioner` | fails at the first `send()`: write a class with `partition(topic, key, serialized_key, value, serialized_value, cluster)` |
| keys and their partitions | unchanged |
| `api_version_auto_timeout_ms`, `buffer_memory` | raise `ValueError`; the first is `bootstrap_timeout_ms` |
| a producer that is inherited by a fork | create it after the fork, as with the [consumer](../how-to/django-celery.md) |

Changes of names and errors:

| 2.x | 3.0, and this package |
|---|---|
| `kafka.errors.NoBrokersAvailable` | does not exist. The constructor raises `KafkaTimeoutError` after `bootstrap_timeout_ms` (30 seconds) |
| `except RuntimeError` for a `KafkaError` | does not catch it: `KafkaError` is an `Exception` |
| `kafka.sasl` | `kafka.net.sasl` |
| `kafka.conn`, `kafka.client_async`, `BrokerConnection`, `KafkaClient` | do not exist |
| `list_consumer_groups()`, `describe_consumer_groups()`, `delete_consumer_groups()`, `list_consumer_group_offsets()`, `perform_leader_election()` of the admin client | `list_groups()`, `describe_groups()`, `delete_groups()`, `list_group_offsets()`, `elect_leaders()`; responses are dictionaries |
| `ConsumerRecord` before 2.1, by position | has `leader_epoch` as third field: use names |

Changes of the consumer:

| option | 2.x | here |
|---|---|---|
| `session_timeout_ms` | 10 seconds | 45 seconds: after a crash, partitions wait longer, unless you set it |
| `request_timeout_ms` | 305 seconds | 30 seconds |
| `api_version_auto_timeout_ms`, `legacy_iterator` | | accepted with a `DeprecationWarning` |

## Delete

| workaround | why it is no longer needed |
|---|---|
| a large `session_timeout_ms` for slow handlers | heartbeats do not depend on your code; only `max_poll_interval_ms` limits it |
| a thread that calls `poll()` to keep the membership | heartbeats do not depend on your code |
| a small `max_poll_records` against expired sessions | heartbeats do not depend on your code |
| `commit_async()` in `on_partitions_revoked` because `commit()` fails there | listeners may call every method |
| a restart of the process when the cluster was unreachable | the consumer reconnects, and starts from `bootstrap_servers` again if necessary |
| parsing an error's text to find a bad record | `RecordDeserializationError` has `partition` and `offset` |

## Added

| name | use |
|---|---|
| `poll_arrow()` | records as columns: [Arrow, polars, DuckDB and pandas](../how-to/arrow.md) |
| `group_protocol="consumer"` | KIP-848: [Moving a group](../how-to/migrate-to-kip-848.md) |
| `wakeup()` | ends a waiting `poll()` from a signal handler: [Graceful shutdown](../how-to/shutdown.md) |
| `current_lag()` | records left to read in a partition |
| `commit_sync()` | another name of `commit()` |
| `ConsumerRecords.next_offsets`, `count`, `records(topic)` | what to commit for a batch; its size; its records of a topic |
| `close(leave_group=...)` | leave or stay: [Static members](../how-to/static-members.md) |
| `auto_offset_reset="by_duration:PT1H"` | [Seek by time](../how-to/seek-by-time.md) |
| `interceptor_classes`, `enforce_rebalance()`, `cluster()`, `stop_at()` | see the API reference |

These options have an effect here. kafka-python 3.0 accepts and ignores them:
`allow_auto_create_topics`, `receive_buffer_bytes`, `send_buffer_bytes`, `ssl_ciphers`.
"""  # noqa: E501 - rows of tables

DEFAULTS_HEADER = "| option | kafka-python | tandem-kafka | reason |"
HEADER = "| subject | kafka-python | tandem-kafka | reason |"
RULE = "|---|---|---|---|"

END = """\
## Tests

Of kafka-python's own tests (3.0.11, with 3.0.12 installed and Kafka 4.3.0), those that create a
`KafkaConsumer`, with the class replaced by `install()`:

| tests | passed | failed |
|---|---|---|
| `integration/test_consumer_integration.py` | 13 of 16 | `test_kafka_consumer_unsupported_encoding`: the library is not needed; `test_group`, `test_heartbeat_thread`: read `_coordinator.heartbeat` and `_coordinator.state` |
| `integration/test_producer_integration.py` | 9 of 9 | none |
| `integration/test_sasl_integration.py` | 3 of 3 | none |
| `integration/test_admin_integration.py` | 4 of 4 | `test_delete_records` in some runs: expects the records of six partitions from the first `poll()` |
| `consumer/test_consumer.py` | 8 of 12 | `test_assign`: reads `_client.cluster._topics`; three of `test_poll_once_*`: replace methods of `_coordinator` and `_fetcher` |

`test_group` fails after its checks of the assignment. One test is for brokers before 0.10.1, and was
skipped. The other files in `consumer/` test kafka-python's own parts, such as `Fetcher`,
`ConsumerCoordinator` and `SubscriptionState`, and create no `KafkaConsumer`.

`tests/parity` runs the same programs with both consumers on a real Kafka, and compares all methods,
parameters and options. A difference that is missing on this page fails a test. For the values that
each option accepts, see [Options compared with kafka-python](../reference/options-parity.md).
"""  # noqa: E501 - rows of tables


def page() -> str:
    """Return the page."""
    ours, theirs = KafkaConsumer.DEFAULT_CONFIG, Theirs.DEFAULT_CONFIG
    lines = [
        INTRODUCTION,
        "## Defaults that differ",
        "",
        DEFAULTS_HEADER,
        RULE,
        *(
            f"| `{name}` | `{theirs[name]!r}` | `{ours[name]!r}` | {why} |"
            for name, why in DEFAULTS.items()
        ),
        "",
        "All other defaults are the same.",
        "",
        "## Behaviour that differs",
        "",
        HEADER,
        RULE,
        *(f"| {' | '.join(row)} |" for row in BEHAVIOUR),
        "",
        "## Attributes that are missing",
        "",
        *(f"- `{name}`: {why}." for name, why in ATTRIBUTES.items()),
        "",
        END,
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(page())
