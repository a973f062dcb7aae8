"""What differs from `confluent_kafka`, and `docs/confluent.md`, which is made from it."""

from __future__ import annotations

from tandem_kafka.confluent.properties import IGNORED, OWN_DEFAULTS, PROPERTIES, REFUSED

__all__ = ["DIFFERENCES", "page"]

#: What, how it is there, how it is here, and why.
DIFFERENCES = (
    (
        "`assign()` while subscribed",
        "replaces what the group has assigned, by any partitions",
        "chooses among the partitions of the group; others raise `_STATE`",
        "a partition that the group gave to another member would be read twice",
    ),
    (
        "`incremental_assign()` after an eager rebalance",
        "raises `_STATE`",
        "works",
        "nothing here depends on the protocol of the last rebalance",
    ),
    (
        "`seek()` after `_AUTO_OFFSET_RESET`",
        "raises `_STATE`; assign again",
        "works, as does assigning again",
        "the partition stays assigned",
    ),
    (
        "`unsubscribe()`",
        "`on_revoke` is called by the next `poll()`",
        "`on_revoke` is called before it returns",
        "the group has the partitions back at once",
    ),
    (
        "automatic commits",
        "a thread commits every interval",
        "`poll()`, `consume()` and `close()` commit, when the interval is over",
        "callbacks need the application's thread; a rebalance and `close()` commit the rest",
    ),
    (
        "`commit()` of several partitions of which one fails",
        "the list has an error for that partition",
        "`KafkaException` of the first error",
        "`KafkaConsumer.commit()` says no more",
    ),
    (
        "`list_topics()`",
        "`controller_id`, `orig_broker_id`, `orig_broker_name`",
        "-1, -1, None",
        "a consumer does not ask for the controller",
    ),
    (
        "`set_sasl_credentials()`",
        "takes other credentials for new connections",
        "raises `_NOT_IMPLEMENTED`",
        "make a new consumer; for changing tokens there is `oauth_cb`",
    ),
    (
        "texts of errors",
        "librdkafka's",
        "other words where the cause is known better",
        "compare codes, which are the same",
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
        "the same outline; `brokers` is empty, partitions are those assigned",
        "see `metrics()` of `KafkaConsumer` for more",
    ),
    (
        "`throttle_cb`, `log_cb`, `logger`",
        "are called",
        "are taken with a warning, and not called",
        "throttling is in the metrics; logging goes to the logger `tandem_kafka`",
    ),
    (
        "`error_cb`",
        "called for each failed connection",
        "called when no broker has been reached for 3 s, and for failed log-ins",
        "a connection that is made again is no error",
    ),
    (
        "`group.id` that is empty",
        "a group without a name",
        "no group: nothing is committed",
        "brokers refuse it since Kafka 4",
    ),
    (
        "OAUTHBEARER with `sasl.oauthbearer.method=oidc`",
        "fetches the token itself",
        "refused; give an `oauth_cb`",
        "no HTTP client is built in",
    ),
    (
        "`Producer`, `AdminClient`, `ShareConsumer`, `schema_registry`, `aio`",
        "part of the package",
        "not here; import them from `confluent_kafka`",
        "this is a consumer; Schema Registry's deserializers can be given to it",
    ),
)

_HEAD = """\
# With the names of confluent-kafka

`tandem_kafka.confluent` has the names and conventions of `confluent_kafka`'s consumer. A program
changes its import:

```python
from tandem_kafka.confluent import Consumer, KafkaError, KafkaException, TopicPartition

consumer = Consumer({"bootstrap.servers": "localhost:9092", "group.id": "billing"})
consumer.subscribe(["orders"])
while True:
    message = consumer.poll(1.0)
    if message is None:
        continue
    if message.error():
        raise KafkaException(message.error())
    print(message.value())
```

It is a facade over the same `KafkaConsumer`; librdkafka is not needed. `DeserializingConsumer`
takes deserializers of Schema Registry clients. `consumer_group_metadata()` can be given to
`send_offsets_to_transaction()` of a `confluent_kafka.Producer`.

The same programs run with both libraries in `tests/parity/test_confluent.py`. This page is made by
`python -m tests.parity.confluent_differences`.

## What differs

| what | confluent_kafka | here | why |
|---|---|---|---|
"""


def page() -> str:
    """Return the text of `docs/confluent.md`."""
    lines = [f"| {' | '.join(each)} |" for each in DIFFERENCES]
    parts = [
        _HEAD + "\n".join(lines),
        "## Properties",
        "librdkafka's defaults hold, with the exceptions above. " + _defaults(),
        "| property | option of `KafkaConsumer` |\n|---|---|\n" + "\n".join(_properties()),
        "Refused, because leaving them out would change what the program does:",
        "\n".join(f"- `{name}`: {advice}" for name, advice in REFUSED.items()),
        "Taken without effect, with a warning:",
        ", ".join(f"`{name}`" for name in sorted(IGNORED)) + ".",
    ]
    return "\n\n".join(parts) + "\n"


def _defaults() -> str:
    shown = ", ".join(f"`{option}={value!r}`" for option, value in OWN_DEFAULTS.items())
    return f"Where `KafkaConsumer` has others, these are used: {shown}."


def _properties() -> list[str]:
    return [
        f"| `{name}` | {'the facade itself' if known.option is None else f'`{known.option}`'} |"
        for name, known in sorted(PROPERTIES.items())
    ]


if __name__ == "__main__":
    from pathlib import Path

    Path("docs/confluent.md").write_text(page(), encoding="utf-8")
