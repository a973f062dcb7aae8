"""Move a running group to KIP-848 by restarting its members one by one.

The members may use different protocols meanwhile: the coordinator converts the group when the first
one joins with `group_protocol="consumer"`, and translates for the others. Listeners need no change.
With KIP-848 they receive the partitions that move, as with cooperative assignors.

To go back, restart the members with `group_protocol="classic"`.

This needs brokers of Kafka 4.0 or newer. Run it with Python 3.11 or newer, after
`pip install tandem-kafka`:

    python examples/migrate_to_kip848.py --bootstrap localhost:9092 --topic numbers
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from arguments import parse
from stopping import Stop

from tandem_kafka import KafkaConsumer
from tandem_kafka.errors import CommitFailedError

#: The members. In a real group each of them is a process.
MEMBERS = ("first", "second")


def start(
    bootstrap: str, group: str, topic: str, protocol: Literal["classic", "consumer"]
) -> KafkaConsumer:
    """Start a member; only the protocol differs before and after."""
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        group_protocol=protocol,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    consumer.subscribe([topic])
    return consumer


def process(members: Iterable[KafkaConsumer]) -> int:
    """Have each member process and commit a batch; returns how many records it was."""
    processed = 0
    for consumer in members:
        batch = consumer.poll(timeout_ms=200)
        if not batch:
            continue
        try:
            consumer.commit_sync()
        except CommitFailedError as error:
            print(f"not committed: {error}")  # the records are read again
        else:
            processed += batch.count
    return processed


def main() -> None:
    """Process half of the records with classic members, move the group, process the rest."""
    arguments = parse(__doc__)
    total = arguments.stop_after or 1_000
    stop = Stop(total)
    group = (arguments.bootstrap, arguments.group, arguments.topic)
    members = {name: start(*group, "classic") for name in MEMBERS}
    processed = 0
    try:
        while processed < total // 2 and not stop.due():
            processed += process(members.values())
        print(f"processed {processed} with the classic protocol")
        for name in MEMBERS:
            if stop.due():
                break
            members[name].close()
            members[name] = start(*group, "consumer")
            processed += process(members.values())
            print(f"the {name} member is back, with KIP-848")
        while not stop.due(processed):
            processed += process(members.values())
    finally:
        for consumer in members.values():
            consumer.close()
    print(f"processed {processed}")


if __name__ == "__main__":
    main()
