"""Move a live group to KIP-848 by restarting its members one by one.

The members of a group may speak different protocols while that goes on: the coordinator turns the
group over when the first one joins with `group_protocol="consumer"` and translates for the rest
(Kafka 4.0 and newer). Listeners need no change: under both protocols they run inside poll(); with
KIP-848, and with cooperative assignors, they are told of what moves, not of everything.

The way back is the same: restart the members with `group_protocol="classic"`.
"""

from __future__ import annotations

from arguments import parse

from tandem_kafka import KafkaConsumer

#: What the members of this group are called; in earnest each is a process of its own.
MEMBERS = ("first", "second")


def member(bootstrap: str, group: str, topic: str, protocol: str) -> KafkaConsumer:
    """Start a member; nothing but the protocol differs between before and after."""
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=group,
        group_protocol=protocol,  # type: ignore[arg-type]
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    consumer.subscribe([topic])
    return consumer


def turn(members: dict[str, KafkaConsumer]) -> int:
    """Have each member process and commit what there is; returns how many records that was."""
    processed = 0
    for consumer in members.values():
        batch = consumer.poll(timeout_ms=200)
        processed += batch.count
        if batch:
            consumer.commit_sync()
    return processed


def main() -> None:
    """Read half of the records with classic members, roll the group, read the rest."""
    arguments = parse(main.__doc__ or "")
    total = arguments.stop_after or 1_000
    start = (arguments.bootstrap, arguments.group, arguments.topic)
    members = {name: member(*start, "classic") for name in MEMBERS}
    processed = 0
    while processed < total // 2:
        processed += turn(members)
    print(f"processed {processed} with the classic protocol")
    for name in MEMBERS:
        members[name].close()
        members[name] = member(*start, "consumer")
        processed += turn(members)
        print(f"the {name} member is back and speaks KIP-848")
    while processed < total:
        processed += turn(members)
    for consumer in members.values():
        consumer.close()
    print(f"processed {processed}")


if __name__ == "__main__":
    main()
