"""Share consumers in forks, and at the end of the interpreter and of their references."""

from __future__ import annotations

import gc
import subprocess
import sys
import warnings
from collections.abc import Callable

import pytest

from tandem_kafka import ShareConsumer, TopicPartition
from tandem_kafka.errors import ForkedConsumerError
from tests.integration.reading.test_threads_and_processes import in_fork
from tests.integration.share.share_members import Share, places, produce, take
from tests.integration.simulated_cluster import Cluster
from tests.waiting import wait_until

pytestmark = pytest.mark.both_clusters(everyday="simulated")

ADVICE = "create a consumer in each process"


@pytest.mark.full("takes long on a real broker")
def test_the_error_in_a_fork_advises_a_new_consumer(
    kafka: Cluster, topic: str, share: Share
) -> None:
    produce(kafka, topic, 4)
    consumer = share(acknowledgement="explicit")
    first, second, *others = take(consumer, 4)

    def check() -> None:
        for call in (
            lambda: consumer.poll(0),
            lambda: next(consumer),
            lambda: consumer.acknowledge([], "accept"),  # type: ignore[arg-type]
            consumer.release_all,
            consumer.commit,
            consumer.close,
            first.accept,
            first.renew,
        ):
            with pytest.raises(ForkedConsumerError, match=ADVICE):
                call()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            consumer.__del__()  # its end in the child has no effect
        with share() as own:
            assert own.subscription() == {topic}

    in_fork(check)
    first.accept()
    second.release()
    assert consumer.commit() == {TopicPartition(topic, 0): None}
    assert places(take(consumer, 1)) == [(1, 2)]
    assert all(record.is_locked for record in others)


def test_a_fork_inside_a_loop_takes_no_record(
    kafka: Cluster, topic: str, share: Share, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a few milliseconds, here for a minute, what was at hand was handed out."""
    monkeypatch.setattr("tandem_kafka.consumer.share.handing._FOLLOWING_MS", 60_000)
    produce(kafka, topic, 10)
    consumer = share()

    def check() -> None:
        for _ in range(2):
            with pytest.raises(ForkedConsumerError, match=ADVICE):
                next(consumer)

    seen = []
    for record in consumer:
        seen.append((record.offset, record.delivery_count))
        if record.offset in (4, 6):
            in_fork(check)
        if record.offset == 9:
            break
    assert seen == [(offset, 1) for offset in range(10)]


PROGRAM = """
import sys
from tandem_kafka import ShareConsumer

servers, topic, group, ending = sys.argv[1:]

class Owner:
    def __init__(self):
        self.consumer = ShareConsumer(topic, bootstrap_servers=servers, group_id=group)
        print(next(self.consumer).value)
    def __del__(self):
        if ending == "close":
            self.consumer.close(timeout_ms=3_600_000)  # longer than the test may take
            print("closed", flush=True)

owner = Owner()
if ending == "raise":
    raise LookupError("the program fails")
"""


#: The status of a program by how it ends, what it prints, and what it says of its end.
ENDINGS = {
    "end": (0, "b'0'\n", "ResourceWarning: unclosed consumer"),
    "raise": (1, "b'0'\n", "LookupError"),
    "close": (0, "b'0'\nclosed\n", "close() comes after the end of the interpreter"),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_interpreter_ends_with_an_unclosed_consumer(
    kafka: Cluster, topic: str, group: str, ending: str
) -> None:
    """It waited for a minute for the network thread, which does not run any more."""
    produce(kafka, topic, 1)
    done = subprocess.run(
        [
            *(sys.executable, "-W", "always::ResourceWarning", "-c", PROGRAM),
            *(kafka.bootstrap(), topic, group, ending),
        ],
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    status, printed, said = ENDINGS[ending]
    assert (done.returncode, done.stdout) == (status, printed), done.stderr
    assert said in done.stderr


def test_an_unclosed_consumer_warns_and_its_thread_ends(
    kafka: Cluster, topic: str, group: str, network_threads: Callable[[], list[str]]
) -> None:
    produce(kafka, topic, 1)
    consumer: ShareConsumer = ShareConsumer(
        topic, bootstrap_servers=kafka.bootstrap(), group_id=group, client_id="forgotten"
    )
    next(consumer)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del consumer
        gc.collect()
    (warning,) = [each for each in caught if "forgotten" in str(each.message)]
    assert warning.category is ResourceWarning
    assert str(warning.message).startswith("unclosed consumer <ShareConsumer 'forgotten'")
    wait_until(lambda: network_threads() == [], "the end of the thread")
