"""What differs from kafka-python's consumer, and why: the source of `docs/compatibility.md`.

python -m tests.parity.differences > docs/compatibility.md
"""

from __future__ import annotations

import sys

from kafka import KafkaConsumer as Theirs

from tandem_kafka import KafkaConsumer

__all__ = ["ATTRIBUTES", "DEFAULTS", "page"]

#: Options whose defaults differ.
DEFAULTS = {
    "client_id": "None stands for `consumer-<group>-<number>`: brokers' logs tell consumers apart.",
    "max_partition_fetch_bytes": (
        "1 MiB is asked for at first, more while answers are full and quick: it reads faster."
    ),
    "reconnect_backoff_max_ms": (
        "Reading goes on within a second after an outage. The Java client's default."
    ),
}

#: Public attributes of kafka-python's class that ours does not have.
ATTRIBUTES = {
    "DEFAULT_SESSION_TIMEOUT_MS_PRE_KIP_735": (
        "For brokers before 3.0, whose session timeout is asked for like any other here."
    ),
}

#: What a program can notice: what kafka-python does, what ours does, why.
BEHAVIOUR = (
    (
        "A handler takes longer than `session_timeout_ms`, or holds the GIL",
        "the member may lose its partitions",
        "heartbeats go on, up to `max_poll_interval_ms`",
        "the network thread sends them",
    ),
    (
        "A listener without a `group_id`",
        "is never called",
        "is called",
        "a program that seeks in it works with and without a group",
    ),
    (
        "A listener raises",
        "the error is logged",
        "`poll()` raises `RebalanceCallbackError`, and the next one calls the listener again",
        "records of partitions that were not set up would be handed out",
    ),
    (
        "A deserializer raises",
        "`poll()` raises the error",
        "the error is of that type and a `RecordDeserializationError`; earlier records come first",
        "it says which record it was, and how to go on",
    ),
    (
        "`position()` without `timeout_ms`, and no offset can be found",
        "waits for ever",
        "raises `KafkaTimeoutError` after `default_api_timeout_ms`",
        "every wait has an end",
    ),
    (
        "The commit of a member that is no longer in the group",
        "`CommitFailedError`",
        "`CommitFailedError`; `CommitDuringRebalanceError`, a subclass, if `poll()` is enough",
        "the program knows whether it is out",
    ),
    (
        "Iteration with nothing subscribed and no `consumer_timeout_ms`",
        "waits for ever",
        "ends, with a line in the log",
        "nobody else could subscribe meanwhile in a program of one thread",
    ),
    (
        "A subscribed topic is deleted, without a `group_id`",
        "its partitions leave the assignment",
        "they stay, and are read again if it comes back",
        "a broker that has just started may not know the topic: a new start would skip records",
    ),
    (
        "Two threads poll one consumer",
        "undefined",
        "the second one gets `ConcurrentModificationError`",
        "records would be handed to both in any order",
    ),
    (
        "A consumer is used after a fork",
        "undefined",
        "`ForkedConsumerError`",
        "its thread and connections are in the other process",
    ),
    (
        "`json.dumps()` of what `poll()` gives for a partition, without deserializers",
        "writes the records, if their fields can be written",
        "raises TypeError; `list(records)` and single records can be written",
        "the records are made when they are looked at, and the encoder looks at lists alone",
    ),
    (
        "A consumer is dropped without `close()`",
        "its thread runs on",
        "`ResourceWarning`, and its thread ends",
        "a program that forgets consumers does not run out of threads and connections",
    ),
    (
        "What is not kafka-python's public interface (`_client`, `_fetcher`, `_coordinator`, ...)",
        "is there",
        "is not there, but for `_closed`",
        "the consumer is built in another way",
    ),
    (
        "`metrics()` of a consumer that reads topics",
        "the last topic's `fetch-size-avg` and others take the place of the total",
        "a topic has a group of its own, `consumer-fetch-manager-metrics.topic-<name>`",
        "both can be read",
    ),
    (
        "A metric reporter is told of a new metric",
        "by any thread",
        "in the constructor, in `poll()` or in `close()`",
        "the network thread runs no user code",
    ),
    (
        "`api_version` before (0, 11), or one that the broker no longer speaks",
        "the broker closes each connection, and nothing is read",
        "versions are agreed on with the broker",
        "the program works",
    ),
)


INTRODUCTION = """\
# What differs from kafka-python

A program that works with kafka-python 3.0 works here. It imports from `tandem_kafka` in place of
`kafka`, or calls `tandem_kafka.install()` first. `tests/parity` runs the same programs with both on
a real Kafka and compares every method, parameter and option; a difference that they meet is on this
page, or a test fails. Values of options have a page of their own, `options-parity.md`.
"""

HEADER = ("| what | kafka-python | tandem-kafka | why |", "|---|---|---|---|")


def page() -> str:
    """Return the page."""
    ours, theirs = KafkaConsumer.DEFAULT_CONFIG, Theirs.DEFAULT_CONFIG
    lines = [
        INTRODUCTION,
        "## Behaviour",
        "",
        *HEADER,
        *(f"| {' | '.join(row)} |" for row in BEHAVIOUR),
        "",
        "## Defaults",
        "",
        *HEADER,
        *(
            f"| `{name}` | `{theirs[name]!r}` | `{ours[name]!r}` | {why} |"
            for name, why in DEFAULTS.items()
        ),
        "",
        "## Attributes that are not there",
        "",
        *(f"- `{name}`: {why}" for name, why in ATTRIBUTES.items()),
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(page())
