"""Groups that change while a producer runs: no record is missed, and most are read once."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import confluent_kafka
import kafka as kafka_python
import pytest

from benchmarks.outages.streaming import Stream
from tandem_kafka_testing.kafka import RealKafka
from tests.integration.group_members import (
    PROTOCOLS,
    Member,
    MemberLedger,
    options_of,
    owned,
    rebalance_calls,
    settled,
)
from tests.integration.polling import Consume, partitions_of
from tests.waiting import wait_until, while_running

PARTITIONS = 4

pytestmark = [pytest.mark.partitions(PARTITIONS), pytest.mark.timeout(300)]

#: Short enough for several in one test, long enough for a busy machine.
SESSION_MS = 2_500

Join = Callable[..., Member]


@pytest.fixture
def ledger(consume: Consume, topic: str) -> MemberLedger:
    return MemberLedger(consume(group_id=f"group-{topic}"), partitions_of(topic, PARTITIONS))


@pytest.fixture
def join(kafka: RealKafka, consume: Consume, topic: str, ledger: MemberLedger) -> Join:
    """Adds a member, by default with a short session, and waits until the group is stable."""

    def make(
        protocol: str,
        handler: Callable[[Member], None] = lambda _: None,
        session_ms: int = SESSION_MS,
        **more: Any,
    ) -> Member:
        settings = {"consumer.session.timeout.ms": str(session_ms)}
        kafka.admin.configure_group(f"group-{topic}", settings)
        options = options_of(protocol)
        if protocol != "consumer":
            options.update(session_timeout_ms=session_ms, heartbeat_interval_ms=300)
        consumer = consume(group_id=f"group-{topic}", **options, **more)
        ledger.members.append(Member(consumer, [topic], handler))
        settled(ledger.running, PARTITIONS)
        return ledger.members[-1]

    return make


@pytest.mark.full("takes long on a real broker")
@pytest.mark.behaviour(74)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_members_join_and_leave_and_one_is_slow(
    kafka: RealKafka, topic: str, join: Join, ledger: MemberLedger, protocol: str
) -> None:
    """A handler and a listener slower than the session do not affect the group."""
    naps: list[str] = []

    def nap(where: str) -> None:
        if where not in naps:
            time.sleep(1.2 * SESSION_MS / 1_000)
            naps.append(where)

    with Stream(kafka.bootstrap(), topic, PARTITIONS, pause_s=0.02) as stream:
        slow = join(protocol, lambda _: nap("handler"))
        wait_until(lambda: naps == ["handler"])
        quickly = slow.listener.on_partitions_revoked

        def slowly(partitions: Any) -> None:
            quickly(partitions)
            nap("listener")

        slow.listener.on_partitions_revoked = slowly  # type: ignore[method-assign]
        guest = join(protocol)
        ledger.read_more()
        ledger.leave(guest)
        settled(ledger.running, PARTITIONS)
        join(protocol)
        ledger.read_more()
        stream.stop()
    assert naps == ["handler", "listener"]
    assert "lost" not in {what for what, _ in slow.listener.calls}
    ledger.close(stream.sent, once=True)


@pytest.mark.full("takes long on a real broker")
@pytest.mark.behaviour(96)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_static_member_restarts(
    kafka: RealKafka, topic: str, join: Join, ledger: MemberLedger, protocol: str
) -> None:
    options = {"session_ms": 30_000}  # the restart takes longer than a short one, now and then
    with Stream(kafka.bootstrap(), topic, PARTITIONS, pause_s=0.02) as stream:
        stays = join(protocol, group_instance_id="stays", **options)
        goes = join(protocol, group_instance_id="goes", **options)
        ledger.read_more()
        calls, mine = rebalance_calls(stays.listener), owned(goes)
        ledger.leave(goes)
        again = join(protocol, group_instance_id="goes", **options)
        assert owned(again) == mine
        ledger.read_more()
        assert rebalance_calls(stays.listener) == calls
        stream.stop()
    ledger.close(stream.sent, once=True)


_CRASHER = """
import sys
from tests.integration.group_members import options_of
from tandem_kafka import KafkaConsumer
bootstrap, topic, protocol, session_ms = sys.argv[1:]
options = {**options_of(protocol), "enable_auto_commit": False, "auto_offset_reset": "earliest"}
if protocol != "consumer":
    options |= {"session_timeout_ms": int(session_ms)}
group = f"group-{topic}"
consumer = KafkaConsumer(topic, bootstrap_servers=bootstrap, group_id=group, **options)
for record in consumer:
    print("reads", flush=True)
"""


@pytest.mark.full("takes long on a real broker")
@pytest.mark.behaviour(86, 89)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_one_member_is_killed_and_one_stops_polling(
    kafka: RealKafka, topic: str, join: Join, ledger: MemberLedger, protocol: str
) -> None:
    with Stream(kafka.bootstrap(), topic, PARTITIONS, pause_s=0.02) as stream:
        command = [sys.executable, "-W", "ignore", "-c", _CRASHER]
        arguments = [kafka.bootstrap(), topic, protocol, str(SESSION_MS)]
        crasher = subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, text=True)
        assert crasher.stdout is not None
        try:
            assert crasher.stdout.readline() == "reads\n"
        finally:
            crasher.kill()
            crasher.wait(30)
            crasher.stdout.close()
        hangs = join(protocol, max_poll_interval_ms=3_000)
        ledger.read_more()
        hangs.stall()
        join(protocol)  # stable: the hanging member has lost its partitions
        ledger.read_more()
        stream.stop()
    ledger.close(stream.sent)


@pytest.mark.parametrize("way", [("eager", "consumer"), ("consumer", "cooperative")], ids=str)
def test_a_group_moves_to_the_other_protocol(
    kafka: RealKafka, topic: str, join: Join, ledger: MemberLedger, way: tuple[str, str]
) -> None:
    before, after = way
    with Stream(kafka.bootstrap(), topic, PARTITIONS, pause_s=0.02) as stream:
        old = [join(before), join(before)]
        for member in old:
            ledger.read_more()
            ledger.leave(member)
            join(after)
        ledger.read_more()
        stream.stop()
    ledger.close(stream.sent, once=True)


@pytest.mark.parametrize("protocol", ["eager", "consumer"])
def test_a_group_of_several_clients(
    kafka: RealKafka, topic: str, join: Join, ledger: MemberLedger, protocol: str
) -> None:
    """Our member beside one of confluent-kafka and one of kafka-python.

    kafka-python supports only the classic protocol, but can be a member of a KIP-848 group.
    """
    group, bootstrap = f"group-{topic}", kafka.bootstrap()
    theirs: set[tuple[int, int]] = set()
    with Stream(bootstrap, topic, PARTITIONS, pause_s=0.02) as stream:
        ours = join(protocol)
        confluent = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "group.protocol": "consumer" if protocol == "consumer" else "classic",
                "auto.offset.reset": "earliest",
                "log_level": 0,
            }
        )
        confluent.subscribe([topic])
        python = kafka_python.KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=300,
        )

        def read_theirs() -> None:
            message = confluent.poll(0.01)
            if message is not None and message.error() is None:
                theirs.add((message.partition(), message.offset()))
            for records in python.poll(10).values():
                theirs.update((record.partition, record.offset) for record in records)

        def all_have_a_share() -> None:
            shares = lambda: (owned(ours), confluent.assignment(), python.assignment())  # noqa: E731
            wait_until(lambda: all(shares()) and sum(map(len, shares())) == PARTITIONS)

        try:
            while_running(all_have_a_share, read_theirs)
            while_running(ledger.read_more, read_theirs)
            stream.stop()
            everything = {(p, at) for p in range(PARTITIONS) for at in range(stream.sent)}

            def all_is_read() -> None:
                wait_until(lambda: not everything - theirs - _offsets(ours))

            while_running(all_is_read, read_theirs)
        finally:
            confluent.close()
            python.close()
    settled([ours], PARTITIONS)
    ours.stop()
    assert ours.error is None


def _offsets(member: Member) -> set[tuple[int, int]]:
    return {(record.partition, record.offset) for record in list(member.records)}
