"""Tests of the Python transport only: its budget and the cost of a wakeup."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tandem_kafka.network.selector import SelectorTransport
from tandem_kafka.network.transport import FrameReceived
from tests.unit.network.peers import Peer, connected, events_of, frame
from tests.unit.network.scripted import Settings

pytestmark = pytest.mark.real_time


@pytest.fixture
def transport() -> Iterator[SelectorTransport]:
    transport = SelectorTransport(Settings())
    yield transport
    transport.close()


def test_a_busy_connection_does_not_starve_the_others(
    transport: SelectorTransport, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tandem_kafka.network.channel.RECEIVE_BUDGET", 1000)
    _, busy = connected(transport, peer)
    quiet_number, quiet = connected(transport, peer)
    busy.sendall(frame(b"x" * 400_000)[:300_000])
    quiet.sendall(frame(b"me too"))
    (event,) = events_of(transport)
    assert isinstance(event, FrameReceived)
    assert event.connection == quiet_number


def test_wakeups_coalesce(transport: SelectorTransport, monkeypatch: pytest.MonkeyPatch) -> None:
    class Counting:
        calls = 0

        def send(self, data: bytes) -> int:
            Counting.calls += 1
            return len(data)

    real = transport._wakeup_writer
    monkeypatch.setattr(transport, "_wakeup_writer", Counting())
    for _ in range(1000):
        transport.wakeup()
    assert Counting.calls == 0  # the thread is not sleeping, so it checks anyway
    transport.poll(0)
    transport._polling = True
    for _ in range(1000):
        transport.wakeup()
    assert Counting.calls == 1
    monkeypatch.setattr(transport, "_wakeup_writer", real)
