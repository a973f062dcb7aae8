"""One thread at a time, no forks, and an interpreter that ends whatever was forgotten."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import traceback
import warnings
from collections.abc import Callable

import pytest

from benchmarks.outages.streaming import Stream
from tandem_kafka import KafkaConsumer, TopicPartition
from tandem_kafka.errors import ConcurrentModificationError, ForkedConsumerError
from tandem_kafka_testing.kafka import RealKafka
from tests.integration.polling import (
    ENDLESS_MS,
    Consume,
    partitions_of,
    poll_until,
    read_all,
    when_blocked,
)
from tests.waiting import wait_until


@pytest.fixture
def consumer(topic: str, consume: Consume) -> KafkaConsumer:
    consumer = consume(group_id=f"group-of-{topic}")
    consumer.assign(partitions_of(topic, 1))
    consumer.position(TopicPartition(topic, 0))
    return consumer


@pytest.mark.behaviour(11)
def test_a_second_reader_is_rejected_without_effect(
    kafka: RealKafka, topic: str, consumer: KafkaConsumer
) -> None:
    messages: list[str] = []

    def intrude() -> None:
        for call in (lambda: consumer.poll(0), consumer.poll_arrow, lambda: next(consumer)):
            with pytest.raises(ConcurrentModificationError) as caught:
                call()
            messages.append(str(caught.value))
        kafka.admin.produce(topic, [b"undisturbed"])

    with when_blocked(consumer, intrude):
        assert [record.value for record in read_all(consumer, 1)] == [b"undisturbed"]
    assert len(messages) == 3
    assert all("only one thread at a time may poll or iterate" in message for message in messages)
    assert all("MainThread" in message for message in messages)


def test_other_threads_can_make_all_other_calls_during_a_poll(
    kafka: RealKafka, topic: str, consumer: KafkaConsumer
) -> None:
    tp = TopicPartition(topic, 0)
    kafka.admin.produce(topic, [b"1", b"2"])
    read_all(consumer, 2)
    found: list[object] = []

    def visit() -> None:
        consumer.metrics()
        consumer.pause(tp)
        found.extend([consumer.assignment(), consumer.paused(), consumer.position(tp)])
        consumer.commit()
        consumer.commit_async()
        found.extend([consumer.committed(tp), consumer.end_offsets([tp])[tp]])
        consumer.seek(tp, 1)
        consumer.resume(tp)

    with when_blocked(consumer, visit):
        assert [record.value for record in read_all(consumer, 1)] == [b"2"], "sought back"
    assert found == [{tp}, {tp}, 2, 2, 2]


def test_other_threads_can_change_the_subscription(
    kafka: RealKafka, topic: str, consumer: KafkaConsumer
) -> None:
    other = kafka.admin.create_topic(f"{topic}-other", 1)
    kafka.admin.produce(other, [b"other"])

    def steer() -> None:
        consumer.unsubscribe()
        assert consumer.assignment() == set()
        consumer.subscribe([other])

    with when_blocked(consumer, steer):
        assert [record.value for record in read_all(consumer, 1)] == [b"other"]


@pytest.mark.parametrize("reading", ["poll", "iteration"])
def test_close_by_another_thread_ends_the_reader(
    network_threads: Callable[[], list[str]], consumer: KafkaConsumer, reading: str
) -> None:
    with when_blocked(consumer, consumer.close):
        found = consumer.poll(60_000) if reading == "poll" else list(consumer)
    assert not found
    assert network_threads() == []


def test_close_does_not_wait_for_a_listener_that_does_not_end(
    network_threads: Callable[[], list[str]], topic: str, consume: Consume
) -> None:
    consumer = consume(group_id=f"group-of-{topic}", group_protocol="consumer")
    began, go_on = threading.Event(), threading.Event()

    class Stuck:
        def on_partitions_assigned(self, _: object) -> None:
            began.set()
            go_on.wait(60)

        def on_partitions_revoked(self, _: object) -> None:
            raise AssertionError("the other thread is inside the listener")

    consumer.subscribe([topic], listener=Stuck())
    reader = threading.Thread(target=lambda: consumer.poll(60_000))
    reader.start()
    assert began.wait(60)
    consumer.close(timeout_ms=500)
    assert network_threads() == []
    go_on.set()
    reader.join(60)
    assert not reader.is_alive()


@pytest.mark.behaviour(11)
def test_threads_can_take_turns(kafka: RealKafka, topic: str, consumer: KafkaConsumer) -> None:
    kafka.admin.produce(topic, [b"1", b"2"])
    offsets: list[int] = []

    def turn() -> None:
        offsets.extend(record.offset for record in read_all(consumer, 1, max_records=1))

    for _ in range(2):
        thread = threading.Thread(target=turn)
        thread.start()
        thread.join()
    assert offsets == [0, 1]


def in_fork(check: object) -> None:
    """Run something in a fork of this process; the test fails if it does."""
    with warnings.catch_warnings():
        # Python 3.12 warns of forks with threads, which are the subject here.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:  # pragma: no cover - in another process
        status = 1
        try:
            check()  # type: ignore[operator]
            status = 0
        except BaseException:  # noqa: BLE001 - nothing may leave the child
            traceback.print_exc()
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_the_error_in_a_fork_advises_a_new_consumer(
    kafka: RealKafka, topic: str, consumer: KafkaConsumer
) -> None:
    def check() -> None:
        for call in (lambda: consumer.poll(0), consumer.commit, consumer.close):
            with pytest.raises(ForkedConsumerError, match="create a consumer in each process"):
                call()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            consumer.__del__()  # its end in the child has no effect
        with KafkaConsumer(bootstrap_servers=kafka.bootstrap()) as own:
            assert own.partitions_for_topic(topic) == {0}

    in_fork(check)
    kafka.admin.produce(topic, [b"the parent goes on"])
    assert len(read_all(consumer, 1)) == 1
    consumer.commit()


def test_a_fork_inside_a_loop_takes_no_record(
    kafka: RealKafka, topic: str, consume: Consume
) -> None:
    kafka.admin.produce(topic, [b"%d" % number for number in range(10)])
    consumer = consume()
    consumer.assign(partitions_of(topic, 1))

    def check() -> None:
        for _ in range(2):
            with pytest.raises(ForkedConsumerError, match="create a consumer in each process"):
                next(consumer)

    seen = []
    for record in consumer:
        seen.append(record.offset)
        if record.offset == 4:
            in_fork(check)
        if record.offset == 9:
            break
    assert seen == list(range(10))


FORKING = """
import os, sys
from tandem_kafka import KafkaConsumer
from tandem_kafka.errors import ForkedConsumerError

servers, topic, group, count = sys.argv[1:]
consumer = KafkaConsumer(
    topic, bootstrap_servers=servers, group_id=group, auto_offset_reset="earliest"
)
offsets = []
for record in consumer:
    offsets.append(record.offset)
    if len(offsets) == int(count):
        break
    if len(offsets) % (int(count) // 10) == 0:
        child = os.fork()
        if child == 0:
            try:
                next(consumer)
            except ForkedConsumerError:
                sys.exit(0)  # an exit with all finalizers
            sys.exit(1)
        assert os.waitpid(child, 0)[1] == 0
consumer.close()
print(offsets == list(range(int(count))))
"""


def test_forks_that_end_disturb_no_stream(kafka: RealKafka, topic: str) -> None:
    with Stream(kafka.bootstrap(), topic):
        arguments = [kafka.bootstrap(), topic, f"group-of-{topic}", "1000"]
        done = subprocess.run(
            [sys.executable, "-c", FORKING, *arguments],
            capture_output=True,
            text=True,
            timeout=150,
            check=False,
        )
    assert done.stdout == "True\n", done.stderr


def test_an_unclosed_consumer_warns_and_its_thread_ends(
    network_threads: Callable[[], list[str]], kafka: RealKafka, topic: str
) -> None:
    consumer = KafkaConsumer(bootstrap_servers=kafka.bootstrap(), client_id="forgotten")
    consumer.assign(partitions_of(topic, 1))
    consumer.poll(0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del consumer
        gc.collect()
    (warning,) = [each for each in caught if "forgotten" in str(each.message)]
    assert warning.category is ResourceWarning
    assert str(warning.message) == "unclosed consumer <KafkaConsumer 'forgotten'>"
    wait_until(lambda: network_threads() == [], "the end of the thread")


def test_a_closed_consumer_does_not_warn(kafka: RealKafka) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        consumer = KafkaConsumer(bootstrap_servers=kafka.bootstrap())
        consumer.close()
        del consumer
        gc.collect()


PROGRAM = """
import sys
from benchmarks.outages.streaming import Stream
from tandem_kafka import KafkaConsumer, TopicPartition

servers, topic, group, ending = sys.argv[1:]
consumer = KafkaConsumer(
    topic, bootstrap_servers=servers, group_id=group, auto_offset_reset="earliest"
)
values = []
while len(values) < 2:
    for records in consumer.poll(500).values():
        values += [record.value for record in records]
print(values, flush=True)
if ending == "raise":
    raise LookupError("the program fails")
if ending == "exit":
    sys.exit(7)
"""


@pytest.mark.parametrize(("ending", "status"), [("end", 0), ("raise", 1), ("exit", 7)])
def test_the_interpreter_ends_with_an_unclosed_consumer(
    kafka: RealKafka, topic: str, ending: str, status: int
) -> None:
    kafka.admin.produce(topic, [b"1", b"2"])
    arguments = [kafka.bootstrap(), topic, f"group-of-{topic}", ending]
    done = subprocess.run(
        [sys.executable, "-W", "always::ResourceWarning", "-c", PROGRAM, *arguments],
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == status, done.stderr
    assert done.stdout == "[b'1', b'2']\n"
    assert "ResourceWarning: unclosed consumer" in done.stderr
    assert ("LookupError" in done.stderr) == (ending == "raise")
    assert done.stderr.count("Traceback") == (ending == "raise")


def test_a_close_at_the_very_end_does_not_wait(kafka: RealKafka, topic: str) -> None:
    """Objects of modules are destroyed when the network thread does not run any more."""
    program = f"""
from tandem_kafka import KafkaConsumer

class Owner:
    def __init__(self):
        self.consumer = KafkaConsumer({topic!r}, bootstrap_servers={kafka.bootstrap()!r})
        self.consumer.poll(100)
    def __del__(self):
        self.consumer.close(timeout_ms={ENDLESS_MS})
        print("closed", flush=True)

owner = Owner()
"""
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=150, check=False
    )
    assert ran.stdout == "closed\n", ran.stderr
    assert "close() comes after the end of the interpreter" in ran.stderr


@pytest.mark.behaviour(117)
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_no_thread_outlives_close(topic: str, consume: Consume, protocol: str) -> None:
    before = set(threading.enumerate())
    consumer = consume(topic, group_id=f"group-of-{topic}", group_protocol=protocol)
    poll_until(consumer, consumer.assignment)
    assert set(threading.enumerate()) - before
    consumer.close()
    assert not set(threading.enumerate()) - before
