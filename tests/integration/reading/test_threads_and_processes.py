"""One thread at a time, no forks, and an interpreter that ends whatever was forgotten."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import threading
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from benchmarks.outages.streaming import Stream
from tandem_kafka import KafkaConsumer, ShareConsumer, TopicPartition
from tandem_kafka.errors import ConcurrentModificationError, ForkedConsumerError
from tandem_kafka_testing.kafka import RealKafka
from tests.integration.brokers import Cluster
from tests.integration.polling import (
    Consume,
    partitions_of,
    poll_until,
    read_all,
    when_blocked,
)
from tests.integration.share.share_members import places, produce, take
from tests.waiting import wait_until

ADVICE = "create a consumer in each process"


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


KINDS = [KafkaConsumer, ShareConsumer]
Kind = type[KafkaConsumer] | type[ShareConsumer]
of_both_kinds = pytest.mark.parametrize("kind", KINDS)
on_both_clusters = pytest.mark.both_clusters(everyday="simulated")


@pytest.fixture
def start(topic: str, request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Starts a consumer of either kind."""

    def start(kind: Kind, acknowledgement: str = "implicit") -> Any:
        if kind is ShareConsumer:
            return request.getfixturevalue("share")(acknowledgement=acknowledgement)
        return request.getfixturevalue("consume")(topic, group_id=f"group-of-{topic}")

    return start


@on_both_clusters
@of_both_kinds
def test_the_error_in_a_fork_advises_a_new_consumer(
    kafka: Cluster, topic: str, start: Callable[..., Any], kind: Kind
) -> None:
    produce(kafka, topic, 4)
    consumer = start(kind, "explicit")
    first, second, *others = take(consumer, 4)
    calls = [lambda: consumer.poll(0), lambda: next(consumer), consumer.commit, consumer.close]
    if kind is ShareConsumer:
        calls += [lambda: consumer.acknowledge([], "accept"), consumer.release_all]
        calls += [first.accept, first.renew]

    def check() -> None:
        for call in calls:
            with pytest.raises(ForkedConsumerError, match=ADVICE):
                call()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            consumer.__del__()  # its end in the child has no effect
        with start(kind) as own:
            assert own.subscription() == {topic}
            assert kind is ShareConsumer or own.partitions_for_topic(topic) == {0}

    in_fork(check)
    if kind is ShareConsumer:
        first.accept()
        second.release()
        assert consumer.commit() == {TopicPartition(topic, 0): None}
        assert places(take(consumer, 1)) == [(1, 2)]
        assert all(record.is_locked for record in others)
    else:
        kafka.admin.produce(topic, [b"the parent goes on"])
        assert len(take(consumer, 1)) == 1
        consumer.commit()


@on_both_clusters
@of_both_kinds
def test_a_fork_inside_a_loop_takes_no_record(
    kafka: Cluster,
    topic: str,
    start: Callable[..., Any],
    kind: Kind,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """For a few milliseconds, here for a minute, what was at hand was handed out."""
    monkeypatch.setattr("tandem_kafka.consumer.share.handing._FOLLOWING_MS", 60_000)
    produce(kafka, topic, 10)
    consumer = start(kind)

    def check() -> None:
        for _ in range(2):
            with pytest.raises(ForkedConsumerError, match=ADVICE):
                next(consumer)

    seen = []
    for record in consumer:
        seen.append((record.offset, getattr(record, "delivery_count", 1)))
        if record.offset in (4, 6):
            in_fork(check)
        if record.offset == 9:
            break
    assert seen == [(offset, 1) for offset in range(10)]


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


@on_both_clusters
@of_both_kinds
def test_an_unclosed_consumer_warns_and_its_thread_ends(
    network_threads: Callable[[], list[str]], kafka: Cluster, kind: Kind
) -> None:
    consumer: Any = kind(bootstrap_servers=kafka.bootstrap(), client_id="forgotten", group_id="g")
    consumer.subscribe(["nothing"])
    consumer.poll(0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del consumer
        gc.collect()
    (warning,) = [each for each in caught if "forgotten" in str(each.message)]
    assert warning.category is ResourceWarning
    assert str(warning.message).startswith(f"unclosed consumer <{kind.__name__} 'forgotten'")
    wait_until(lambda: network_threads() == [], "the end of the thread")


def test_a_closed_consumer_does_not_warn(kafka: RealKafka) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        consumer = KafkaConsumer(bootstrap_servers=kafka.bootstrap())
        consumer.close()
        del consumer
        gc.collect()


PROGRAM = """
import json, sys
import tandem_kafka

kind, topic, options, ending = sys.argv[1:]

class Owner:
    def __init__(self):
        self.consumer = getattr(tandem_kafka, kind)(topic, **json.loads(options))
        print(next(self.consumer).value)
    def __del__(self):
        if ending == "close":
            self.consumer.close(timeout_ms=3_600_000)  # longer than the test may take
            print("closed", flush=True)

owner = Owner()
if ending == "raise":
    raise LookupError("the program fails")
if ending == "exit":
    sys.exit(7)
"""

#: The status of a program by how it ends, what it prints, and what it says of its end.
ENDINGS = {
    "end": (0, "b'0'\n", ["ResourceWarning: unclosed consumer"]),
    "exit": (7, "b'0'\n", ["ResourceWarning: unclosed consumer"]),
    "raise": (1, "b'0'\n", ["ResourceWarning: unclosed consumer", "Traceback", "LookupError"]),
    # Objects of modules are destroyed when the network thread does not run any more.
    "close": (0, "b'0'\nclosed\n", ["close() comes after the end of the interpreter"]),
}


@on_both_clusters
@of_both_kinds
@pytest.mark.parametrize("ending", ENDINGS)
def test_the_interpreter_ends_with_an_unclosed_consumer(
    kafka: Cluster, topic: str, request: pytest.FixtureRequest, kind: Kind, ending: str
) -> None:
    """It waited for a minute for the network thread, which does not run any more."""
    produce(kafka, topic, 2)
    if kind is ShareConsumer:
        options = {"group_id": request.getfixturevalue("group")}
    else:
        options = {"group_id": f"group-of-{topic}", "auto_offset_reset": "earliest"}
    options["bootstrap_servers"] = kafka.bootstrap()
    done = subprocess.run(
        [
            *(sys.executable, "-W", "always::ResourceWarning", "-c", PROGRAM),
            *(kind.__name__, topic, json.dumps(options), ending),
        ],
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    status, printed, said = ENDINGS[ending]
    assert (done.returncode, done.stdout) == (status, printed), done.stderr
    assert all(each in done.stderr for each in said), done.stderr
    assert done.stderr.count("Traceback") == said.count("Traceback"), done.stderr


@pytest.mark.behaviour(117)
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_no_thread_outlives_close(topic: str, consume: Consume, protocol: str) -> None:
    before = set(threading.enumerate())
    consumer = consume(topic, group_id=f"group-of-{topic}", group_protocol=protocol)
    poll_until(consumer, consumer.assignment)
    assert set(threading.enumerate()) - before
    consumer.close()
    assert not set(threading.enumerate()) - before
