"""No broker outlives its owner, whatever ends that; a forked process harms neither."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

pytest.importorskip("confluent_kafka")
pytest.importorskip("trustme")

from tandem_kafka_testing.kafka import RealKafka, process
from tandem_kafka_testing.kafka.process import BrokerProcess
from tests.sources import ROOT

pytestmark = pytest.mark.real_time

#: Starts a broker that is no Kafka: it ignores SIGTERM, and writes to a pipe that it keeps open.
OWNER: Final = """
import os, sys, time
from pathlib import Path
from tandem_kafka_testing.kafka import process

PROGRAM = 'trap "" TERM; exec 3>"$0"; echo started >&3; exec sleep 600'
process.java_command = lambda *_, **__: ["sh", "-c", PROGRAM, sys.argv[2]]
folder = Path(sys.argv[1]) / "broker-1"
folder.mkdir(parents=True)
broker = process.BrokerProcess(folder / "server.properties", folder / "log", [], None, "4.3.0")
broker.launch()
input()
"""
WITH_A_FORKED_PROCESS: Final = """
forked = os.fork()
if forked:
    print(broker._process.pid, forked, flush=True)
time.sleep(600)
"""
WHILE_THE_BROKER_STOPS: Final = """
def wait(timeout):
    print(broker._process.pid, flush=True)
    time.sleep(timeout)

broker._process.wait = wait
broker.ask_to_stop()
broker.wait_stopped()
"""


@pytest.mark.parametrize("then", [WITH_A_FORKED_PROCESS, WHILE_THE_BROKER_STOPS])
def test_a_broker_ends_with_its_owner(tmp_path: Path, then: str) -> None:
    fifo = tmp_path / "pipe"
    os.mkfifo(fifo)
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER + then, tmp_path / "cluster", fifo],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert owner.stdin is not None
    assert owner.stdout is not None
    with fifo.open("rb", buffering=0) as pipe:
        assert pipe.readline() == b"started\n"
        print(file=owner.stdin, flush=True)
        pids = [int(pid) for pid in owner.stdout.readline().split()]
        owner.kill()
        owner.wait()
        try:
            assert select.select([pipe], [], [], 10.0)[0], "the broker runs"
            assert pipe.read() == b""
        finally:
            owner.stdin.close()
            owner.stdout.close()
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[subprocess.Popen[bytes]]]:
    """The processes that were started; the caller is interrupted after the second."""
    found: list[subprocess.Popen[bytes]] = []
    popen: Callable[..., subprocess.Popen[bytes]] = subprocess.Popen

    def interrupted(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        found.append(popen(*arguments, **options))
        if len(found) == 2:
            raise KeyboardInterrupt
        return found[-1]

    monkeypatch.setattr(process, "java_command", lambda *_, **__: ["sleep", "600"])
    monkeypatch.setattr(process.subprocess, "Popen", interrupted)
    yield found
    for each in found:
        each.kill()
        each.communicate()


def test_an_interrupt_while_a_broker_is_launched(
    tmp_path: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    folder = tmp_path / "cluster" / "broker-1"
    folder.mkdir(parents=True)
    broker = BrokerProcess(folder / "server.properties", folder / "log", [], None, "4.3.0")
    with pytest.raises(KeyboardInterrupt):
        broker.launch()
    broker.kill()
    assert [each.wait(60) is not None for each in started] == [True, True]


def test_a_forked_process_cannot_close_the_cluster() -> None:
    kafka = RealKafka()
    folder = kafka.certificates.folder
    forked = os.fork()
    if not forked:
        kafka.close()
        os._exit(0)
    os.waitpid(forked, 0)
    assert folder.exists()
    kafka.close()
    assert not folder.exists()


def test_a_cluster_that_is_closed_does_not_start() -> None:
    kafka = RealKafka()
    kafka.close()
    with pytest.raises(RuntimeError, match="the cluster is closed; make a new RealKafka"):
        kafka.start()


@pytest.mark.parametrize("brokers", [0, -1])
def test_a_cluster_has_a_broker(brokers: int) -> None:
    with pytest.raises(ValueError, match=f"brokers={brokers}: a cluster has at least one broker"):
        RealKafka(brokers)


def test_a_cluster_that_nobody_closes_leaves_no_data() -> None:
    code = (
        "from tandem_kafka_testing.kafka import RealKafka; print(RealKafka().certificates.folder)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True, text=True
    )
    assert not Path(done.stdout.strip()).parent.exists()
