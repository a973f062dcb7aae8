"""The cases of Kafka's system tests for consumers, on three real brokers.

Each case is a function of a running cluster. `python -m tests.verifiable_consumer.cases` runs all
and prints the table of the manual (docs/numbers/system-tests.md).
"""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

from confluent_kafka.admin import PartitionMetadata

from benchmarks.outages.streaming import Stream
from tandem_kafka_testing.kafka import RealKafka
from tests.verifiable_consumer.group import Group, Member
from tests.waiting import wait_until

__all__ = ["CASES"]

PARTITIONS = 6
MEMBERS = 3
_BROKERS = 3
#: A killed member is removed after a short session. A static member that restarts needs a long one,
#: because a busy machine takes seconds to start its process.
_SHORT_MS, _LONG_MS = 6_000, 60_000


@dataclass(frozen=True)
class Case:
    """One case.

    Attributes:
        name: The test of Kafka, with its parameters.
        file: Its file.
        run: Runs it; returns what the table says.
    """

    file: str
    name: str
    run: Callable[[RealKafka], str]


class Setting:
    """A topic that grows, and a group that reads it.

    The session timeout is an option of classic members, and a setting of a KIP-848 group.
    """

    def __init__(self, kafka: RealKafka, *options: str, session_ms: int = 30_000) -> None:
        self.topic = f"system-{uuid.uuid4().hex[:8]}"
        kafka.admin.create_topic(self.topic, PARTITIONS, replicas=_BROKERS)
        kafka.admin.configure_group(self.topic, {"consumer.session.timeout.ms": str(session_ms)})
        self._stream = Stream(kafka.bootstrap(), self.topic, PARTITIONS, pause_s=0.02)
        timeout = ("--session-timeout", str(session_ms))
        self.group = Group(kafka.bootstrap(), self.topic, PARTITIONS, *timeout, *options)

    def __enter__(self) -> Group:
        self._stream.__enter__()
        return self.group.__enter__()

    def __exit__(self, *error: object) -> None:
        self.group.__exit__(*error)
        self._stream.__exit__(*error)


def _protocol(name: str) -> tuple[str, ...]:
    return ("--group-protocol", name)


def _started(group: Group, *options: str, count: int = MEMBERS) -> list[Member]:
    """Start members one by one; returns them when they share the partitions."""
    members = [group.start(*options) for _ in range(count)]
    group.await_members(count)
    group.await_records()
    return members


def _end(group: Group) -> None:
    """End the group; no record was skipped."""
    group.end()
    assert group.skipped == 0, f"{group.skipped} records were skipped"
    assert group.repeated >= 0, f"{-group.repeated} records are missing within batches"


def _exact(kafka: RealKafka, group: Group, *, automatic: bool = False) -> str:
    """End the group; every record was read once, and everything that was read is committed."""
    _end(group)
    assert group.repeated == 0, f"{group.repeated} records were read again"
    commits, positions = group.commits(), group.positions()
    if not automatic:  # no event says what is committed automatically
        assert commits == positions, f"commits {dict(commits)}, positions {dict(positions)}"
    stored = kafka.admin.committed(group.name, group.name)
    assert stored == group.consumed, f"{stored} of {group.consumed} are committed at the broker"
    return f"{group.consumed:,} records, each once; commits equal positions"


# --- consumer_test.py ----------------------------------------------------------------------------


def broker_rolling_bounce(kafka: RealKafka, protocol: str) -> str:
    """Brokers are restarted one after the other, and nobody rebalances."""
    with Setting(kafka, *_protocol(protocol)) as group:
        _started(group)
        before = group.rebalances
        for node_id in kafka.node_ids:
            kafka.restart(node_id)
            group.await_records()
        assert group.rebalances == before, f"{group.rebalances - before} rebalances"
        return f"no rebalance; {_exact(kafka, group)}"


def consumer_bounce(kafka: RealKafka, protocol: str, *, clean: bool, rolling: bool) -> str:
    """Members are stopped or killed and started again, one by one or all at once."""
    with Setting(kafka, *_protocol(protocol), session_ms=_SHORT_MS) as group:
        members = _started(group)
        for some in [[each] for each in members] if rolling else [members]:
            for member in some:
                group.stop(member, clean=clean)
            for _ in some:
                group.start()
            group.await_members(MEMBERS)
            group.await_records()
        if clean:
            return _exact(kafka, group)
        _end(group)
        return f"{group.consumed:,} records, {group.repeated:,} of them again after kills"


def static_bounce(kafka: RealKafka, protocol: str) -> str:
    """Static members are restarted, and the one that stays keeps its partitions."""
    with Setting(kafka, *_protocol(protocol), session_ms=_LONG_MS) as group:
        names = [f"static-{number}" for number in range(MEMBERS)]
        members = [group.start("--group-instance-id", name) for name in names]
        group.await_members(MEMBERS)
        group.await_records()
        stays, before = members[0], members[0].revocations
        for name, member in zip(names[1:], members[1:], strict=True):
            group.stop(member)
            group.start("--group-instance-id", name)
            group.await_members(MEMBERS)
            group.await_records()
        revoked = stays.revocations - before
        assert not revoked, f"{revoked} revocations"
        return f"no revocation; {_exact(kafka, group)}"


def fencing_static(kafka: RealKafka, protocol: str) -> str:
    """A second member with the same instance id: one of the two ends with an error."""
    with Setting(kafka, *_protocol(protocol), session_ms=_LONG_MS) as group:
        names = [f"static-{number}" for number in range(MEMBERS)]
        members = [group.start("--group-instance-id", name) for name in names]
        group.await_members(MEMBERS)
        group.await_records()
        second = group.start("--group-instance-id", names[0])
        # The classic protocol fences the first one, KIP-848 rejects the second.
        loser = members[0] if protocol == "classic" else second
        wait_until(lambda: not loser.alive, "one of the two ends")
        loser.join()
        assert any("InstanceId" in line for line in loser.errors), loser.errors
        group.await_members(MEMBERS)
        group.await_records()
        return f"the {'first' if loser is members[0] else 'second'} one ends; records continue"


def consumer_failure(kafka: RealKafka, protocol: str, *, clean: bool, automatic: bool) -> str:
    """A member is stopped or killed; the others take over its partitions."""
    options = ("--enable-autocommit",) if automatic else ()
    with Setting(kafka, *_protocol(protocol), *options, session_ms=_SHORT_MS) as group:
        members = _started(group)
        group.stop(members[0], clean=clean)
        group.await_members(MEMBERS - 1)
        group.await_records(1_000)
        if clean:
            return _exact(kafka, group, automatic=automatic)
        _end(group)
        return f"{group.consumed:,} records, {group.repeated:,} of them again"


def broker_failure(kafka: RealKafka, protocol: str, *, clean: bool, automatic: bool) -> str:
    """A broker is stopped or killed, and nobody rebalances."""
    options = ("--enable-autocommit",) if automatic else ()
    with Setting(kafka, *_protocol(protocol), *options, session_ms=_LONG_MS) as group:
        _started(group)
        before = group.rebalances
        node_id = kafka.node_ids[0]
        (kafka.stop if clean else kafka.kill)(node_id)
        try:
            group.await_records(1_000)
            assert group.rebalances == before, f"{group.rebalances - before} rebalances"
        finally:
            kafka.start_again(node_id)
        return f"no rebalance; {_exact(kafka, group, automatic=automatic)}"


def group_consumption(kafka: RealKafka, protocol: str) -> str:
    """Members join and leave one by one."""
    with Setting(kafka, *_protocol(protocol)) as group:
        for count in range(1, MEMBERS + 1):
            group.start()
            group.await_members(count)
            group.await_records()
        for count in range(MEMBERS - 1, 0, -1):
            group.stop(group.members[0])
            group.await_members(count)
            group.await_records()
        return _exact(kafka, group)


def valid_assignment(kafka: RealKafka, options: Sequence[str]) -> str:
    """Each partition has one owner after each member that joins."""
    with Setting(kafka, *options) as group:
        for count in range(1, MEMBERS + 1):
            group.start()
            group.await_members(count)
        return f"1 to {MEMBERS} members, each partition with one owner"


# --- rolling upgrade and migration ---------------------------------------------------------------


def rolling_upgrade(kafka: RealKafka) -> str:
    """The assignor is changed in two rounds of restarts."""
    with Setting(kafka) as group:
        members = _started(group, "--assignment-strategy", "range")
        for names in ("roundrobin,range", "roundrobin"):
            for member in members:
                group.stop(member)
                group.start("--assignment-strategy", names)
                group.await_members(MEMBERS)
                group.await_records()
            members = list(group.members)
        return _exact(kafka, group)


def migration(kafka: RealKafka, begin: str, end: str) -> str:
    """The members change their group protocol one by one."""
    with Setting(kafka) as group:
        members = _started(group, *_protocol(begin))
        for member in members:
            group.stop(member)
            group.start(*_protocol(end))
            group.await_members(MEMBERS)
            group.await_records()
        return _exact(kafka, group)


def truncation(kafka: RealKafka, protocol: str) -> str:
    """An unclean election loses records that were read; the ones in their place are read."""
    topic = f"system-{uuid.uuid4().hex[:8]}"
    config = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
    kafka.admin.create_topic(topic, replicas=2, config=config)

    def with_leaders() -> list[PartitionMetadata]:
        """Return nothing while a broker does not know the topic or its leader."""
        known = kafka.admin.client.list_topics(topic, timeout=60.0).topics[topic].partitions
        return [each for each in known.values() if each.leader >= 0]

    wait_until(with_leaders, "a leader")
    (before,) = with_leaders()
    leader = before.leader
    (follower,) = {*before.replicas} - {leader}
    kept, lost, new = 500, 100, 300
    with Group(kafka.bootstrap(), topic, 1, *_protocol(protocol)) as group:
        group.start()
        try:
            kafka.admin.produce(topic, [b"kept"] * kept)
            wait_until(lambda: group.consumed == kept, "all are read")
            kafka.stop(follower)
            kafka.admin.produce(topic, [b"lost"] * lost)
            wait_until(lambda: group.consumed == kept + lost, "the others are read")
            kafka.kill(leader)
            kafka.start_again(follower)
            led = "an unclean election"
            wait_until(lambda: any(each.leader == follower for each in with_leaders()), led)
            kafka.admin.produce(topic, [b"new"] * new)
            wait_until(lambda: group.consumed == kept + lost + new, "the new ones are read")
            group.end()
        finally:
            kafka.start_again()
        assert group.positions() == {0: kept + new}, f"positions {dict(group.positions())}"
        stored = kafka.admin.committed(topic, topic)
        assert stored == kept + new, f"{stored} is committed at the broker"
        return f"{lost} records are lost at the brokers; the {new} in their place are read"


_TEST = "consumer_test.py"
_PROTOCOLS = ("classic", "consumer")
_BOTH = (True, False)


def _named(name: str, *parameters: str) -> str:
    return ", ".join((name, *parameters))


def _failures(run: Callable[..., str], name: str) -> list[Case]:
    return [
        Case(
            _TEST,
            _named(name, "clean" if c else "hard", "auto-commit" if a else "commit", p),
            partial(run, protocol=p, clean=c, automatic=a),
        )
        for p, c, a in product(_PROTOCOLS, _BOTH, _BOTH)
    ]


def _of_each_protocol(run: Callable[..., str], name: str) -> list[Case]:
    return [Case(_TEST, _named(name, p), partial(run, protocol=p)) for p in _PROTOCOLS]


CASES = [
    *_of_each_protocol(broker_rolling_bounce, "broker_rolling_bounce"),
    *(
        Case(
            _TEST,
            _named("consumer_bounce", "clean" if c else "hard", "rolling" if r else "all", p),
            partial(consumer_bounce, protocol=p, clean=c, rolling=r),
        )
        for p, c, r in product(_PROTOCOLS, _BOTH, _BOTH)
    ),
    *_of_each_protocol(static_bounce, "static_consumer_bounce"),
    *_of_each_protocol(fencing_static, "fencing_static_consumer"),
    *_failures(consumer_failure, "consumer_failure"),
    *_failures(broker_failure, "broker_failure"),
    *_of_each_protocol(group_consumption, "group_consumption"),
    *(
        Case(
            _TEST,
            _named("valid_assignment", name),
            partial(valid_assignment, options=("--assignment-strategy", name)),
        )
        for name in ("range", "roundrobin", "sticky", "cooperative-sticky")
    ),
    *(
        Case(
            _TEST,
            _named("valid_assignment", "remote", name),
            partial(
                valid_assignment, options=(*_protocol("consumer"), "--group-remote-assignor", name)
            ),
        )
        for name in ("range", "uniform")
    ),
    Case("consumer_rolling_upgrade_test.py", "rolling_update", rolling_upgrade),
    *(
        Case(
            "consumer_protocol_migration_test.py",
            f"{begin} to {end}",
            partial(migration, begin=begin, end=end),
        )
        for begin, end in (_PROTOCOLS, _PROTOCOLS[::-1])
    ),
    *(
        Case("truncation_test.py", _named("offset_truncate", p), partial(truncation, protocol=p))
        for p in _PROTOCOLS
    ),
]


def main() -> int:
    """Run all cases whose names have the first argument, and print the table."""
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    failed = 0
    kafka = RealKafka(_BROKERS)
    print(f"Apache Kafka {kafka.version}, {_BROKERS} brokers, {MEMBERS} members\n")
    print("| file | case | verdict | seconds | figures |\n|---|---|---|---:|---|")
    with kafka:
        for case in CASES:
            if wanted not in case.name:
                continue
            begin = time.monotonic()
            try:
                verdict, what = "passed", case.run(kafka)
            except AssertionError as error:
                verdict, what = "failed", str(error).splitlines()[0] if str(error) else "assertion"
                failed += 1
            took_s = time.monotonic() - begin
            row = f"| `{case.file}` | {case.name} | {verdict} | {took_s:.0f} | {what} |"
            print(row, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
