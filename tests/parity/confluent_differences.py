"""The differences from `confluent_kafka`: the source of `docs/coming-from/confluent-kafka.md`."""

from __future__ import annotations

import textwrap

from tandem_kafka.config.librdkafka import IGNORED, OWN_DEFAULTS, PROPERTIES, REJECTED

__all__ = ["DIFFERENCES", "page"]

_TESTS = """\
## Tests

`tests/parity/test_confluent.py` runs the same programs with both libraries. Of confluent-kafka's
own tests (2.15.0), with `Consumer` and `DeserializingConsumer` replaced:

| tests | passed | failed |
|---|---|---|
| `tests/test_Consumer.py` | 18 of 19 | `test_basic_api`: `seek()` right after `assign()` works |
| `tests/integration/consumer`, classic groups | 10 of 10 | none |
| `tests/integration/consumer`, `group.protocol=consumer` | 9 of 9 | none |

The broker must create topics automatically. `test_consumer_upgrade_downgrade` compares two members
in the middle of a rebalance; it failed once in five runs."""

#: The subject, confluent_kafka's behaviour, ours, the reason.
DIFFERENCES = (
    (
        "`assign()` while subscribed",
        "replaces the group's assignment with any partitions",
        "selects among the partitions of the group; others raise `_STATE`",
        "a partition that belongs to another member would be read twice",
    ),
    (
        "`incremental_assign()` after an eager rebalance",
        "raises `_STATE`",
        "works",
        "it does not depend on the protocol of the last rebalance",
    ),
    (
        "`seek()` right after `assign()`",
        "raises `_STATE` until the partition is read",
        "works",
        "a position needs no broker",
    ),
    (
        "`seek()` after `_AUTO_OFFSET_RESET`",
        "raises `_STATE`; assign again",
        "works, as does assigning again",
        "the partition stays assigned",
    ),
    (
        "`unsubscribe()`",
        "the next `poll()` calls `on_revoke`",
        "`on_revoke` is called before it returns",
        "the group gets the partitions back at once",
    ),
    (
        "`poll()` in a second thread",
        "both threads get messages",
        "raises a `RuntimeError` while the first waits inside; all other methods may be called",
        "use one consumer per thread",
    ),
    (
        "automatic commits",
        "a thread commits every interval",
        "`poll()` and `consume()` commit when the interval is over; so do rebalances and `close()`",
        "callbacks need the application thread",
    ),
    (
        "`commit()` of several partitions, one of which fails",
        "the list has an error for that partition",
        "`KafkaException` with the first error",
        "`KafkaConsumer.commit()` reports no more",
    ),
    (
        "`list_topics()`",
        "`controller_id`, `orig_broker_id`, `orig_broker_name`",
        "-1, -1, `None`",
        "a consumer does not ask for the controller",
    ),
    (
        "`set_sasl_credentials()`",
        "new connections use the new credentials",
        "raises `_NOT_IMPLEMENTED`",
        "create a new consumer; use `oauth_cb` for tokens that change",
    ),
    (
        "error texts",
        "librdkafka's",
        "may differ",
        "compare the codes, which are the same",
    ),
    (
        "text of `_PARTITION_EOF`",
        "names the broker and the high watermark",
        "names the offset",
        "the broker may have changed since",
    ),
    (
        "`check.crcs`",
        "false by default",
        "true by default",
        "it costs little here, and finds damaged records",
    ),
    (
        "`stats_cb`",
        "brokers with latencies, every partition of a topic",
        "the same outline; `brokers` is empty, only assigned partitions are listed",
        "`metrics()` of `KafkaConsumer` has more",
    ),
    (
        "`throttle_cb`, `log_cb`, `logger`",
        "are called",
        "are accepted with a warning, and not called",
        "metrics show throttling; log lines go to the logger `tandem_kafka`",
    ),
    (
        "`error_cb`",
        "called for each failed connection",
        "called for failed logins, and if no bootstrap server can be reached",
        "a connection that is opened again is not an error",
    ),
    (
        "an empty `group.id`",
        "a group without a name",
        "no group: nothing is committed",
        "brokers reject it since Kafka 4",
    ),
    (
        "OAUTHBEARER with `sasl.oauthbearer.method=oidc`",
        "accepts any URL of a token endpoint",
        "the URL must begin with `https://`, except for this machine",
        "the request contains a secret",
    ),
    (
        "a client id or secret with characters such as `+`, `/` or `=`",
        "is sent to the token endpoint as it is",
        "is percent-encoded",
        "RFC 6749 requires it; if your endpoint does not decode it, choose a secret without them",
    ),
    (
        "`seek()` to `OFFSET_INVALID`",
        "resets as `auto.offset.reset` says",
        "the same for `earliest` and `latest`; `_INVALID_ARG` with `error`",
        "there is no offset to go to",
    ),
    (
        "`error` of the partitions that `on_commit` gets",
        "set",
        "`None`; the first argument has the error",
        "the attribute is read-only in Python",
    ),
    (
        "Ctrl-C, or an exception of a callback, inside `consume()`",
        "the messages that it has collected are lost",
        "the next call returns them; or they are returned, and the next call raises",
        "nothing is lost, and nothing is committed that was not returned",
    ),
    (
        "`key.deserializer.builder`, `value.deserializer.builder`",
        "make a deserializer",
        "rejected; pass the deserializer",
        "they are experimental",
    ),
    (
        "`Producer`, `AdminClient`, `ShareConsumer`, `schema_registry`, `aio`",
        "part of the package",
        "not part of it; import them from `confluent_kafka`",
        "this is a consumer; it takes the deserializers of `schema_registry`",
    ),
)

_HEAD = """\
# Coming from confluent-kafka

`tandem_kafka.confluent` has the names and conventions of `confluent_kafka`'s `Consumer`. This page
shows how to switch, and lists every known difference and property.

<!-- Made by `python -m tests.parity.confluent_differences`; edit the text there. -->

## Switch

Import `Consumer` from here, and leave all other imports as they are:

```python
from confluent_kafka import KafkaException, TopicPartition
from tandem_kafka.confluent import Consumer  # was: from confluent_kafka import Consumer

consumer = Consumer(
    {
        "bootstrap.servers": "localhost:9092",
        "group.id": "billing",
        "auto.offset.reset": "earliest",
    }
)
consumer.subscribe(["orders"])
try:
    while True:
        message = consumer.poll(1.0)
        if message is None:
            continue
        if message.error():
            raise KafkaException(message.error())
        print(message.value())
finally:
    consumer.close()
```

It is a facade over the same `KafkaConsumer`; librdkafka reads nothing. The classes are those of
`confluent_kafka`, which must be installed, 2.13 or later: `pip install 'tandem-kafka[confluent]'`. Other
clients may be in the same group, and committed offsets stay.

| of `confluent_kafka` | of `tandem_kafka.confluent` |
|---|---|
| `Consumer` | `Consumer`, with all its methods |
| `DeserializingConsumer` with deserializers of `schema_registry` | `DeserializingConsumer`, with these deserializers: [Schema registry](../how-to/schema-registry.md) |
| `position()` and `consumer_group_metadata()` for `Producer.send_offsets_to_transaction()` | both methods, for this purpose |
| `TopicPartition`, `Message`, `KafkaError`, `KafkaException`, `OFFSET_BEGINNING` and the other constants | `confluent_kafka`'s own; they can be imported from here too |

Where a method takes partitions, it takes any objects with a topic and a partition. An offset, metadata and
a leader epoch are used if they are there.

## Or use the KafkaConsumer

New code is shorter with `KafkaConsumer`, and `poll_arrow()` exists only there.

| `Consumer` | `KafkaConsumer` |
|---|---|
| `poll(1.0)` returns one message or `None`, seconds | `for record in consumer`, or `poll(timeout_ms=1000)`: records by partition |
| `consume(500, 1.0)` | `poll(timeout_ms=1000, max_records=500)` |
| `message.error()` | exceptions from `poll()` |
| `message.value()`, `message.offset()` | `record.value`, `record.offset` |
| `subscribe(topics, on_assign=, on_revoke=, on_lost=)` | `subscribe(topics, listener=...)`; no `assign()` in the listener |
| `store_offsets()` and auto-commit | `commit({partition: OffsetAndMetadata(offset + 1)})` |
| `commit(asynchronous=True)`, `commit(asynchronous=False)` | `commit_async()`, `commit()` |
| `get_watermark_offsets()` | `beginning_offsets()`, `end_offsets()`, `highwater()` |
| `list_topics()` | `topics()`, `partitions_for_topic()`, `cluster()` |
| `stats_cb` | `metrics()` |
| `enable.partition.eof` | compare `position()` with `end_offsets()`: `examples/read_to_end.py` |

## What to delete

- Short timeouts in `poll()` that exist only to notice Ctrl-C. Ctrl-C ends the wait at once.
- The choice between `assign()` and `incremental_assign()` in callbacks, and with it any code that
  depends on the rebalance protocol. Without a call of either, the assignment is applied for you.
- `queued.min.messages` and `fetch.queue.backoff.ms`: they have no effect. The read-ahead is bounded by
  `queued.max.messages.kbytes` alone.

## What differs

| subject | confluent_kafka | tandem_kafka.confluent | reason |
|---|---|---|---|
"""  # noqa: E501 - rows of tables


def page() -> str:
    """Return the page."""
    lines = [f"| {' | '.join(each)} |" for each in DIFFERENCES]
    parts = [
        _HEAD + "\n".join(lines),
        "## Properties",
        "The defaults are librdkafka's, except those above. " + _defaults(),
        "| property | option of `KafkaConsumer` |\n|---|---|\n" + "\n".join(_properties()),
        "These properties raise an error, because ignoring them would change the program:",
        "\n".join(f"- `{name}`: {advice}" for name, advice in REJECTED.items()),
        "These properties are accepted without effect, with a warning:",
        "```text\n" + textwrap.fill(", ".join(sorted(IGNORED)), 98) + "\n```",
        _TESTS,
    ]
    return "\n\n".join(parts) + "\n"


def _defaults() -> str:
    shown = ", ".join(f"`{option}={value!r}`" for option, value in OWN_DEFAULTS.items())
    return f"So these options differ from the defaults of `KafkaConsumer`: {shown}."


def _properties() -> list[str]:
    return [
        f"| `{name}` | {'of the facade itself' if known.option is None else f'`{known.option}`'} |"
        for name, known in sorted(PROPERTIES.items())
    ]


if __name__ == "__main__":
    from pathlib import Path

    Path("docs/coming-from/confluent-kafka.md").write_text(page(), encoding="utf-8")
