"""The simulation itself: time, scheduling, and detected errors."""

from __future__ import annotations

import pytest

from tandem_kafka import TopicPartition
from tandem_kafka.network.transport import (
    ConnectionClosed,
    ConnectionOpened,
    ServerAddress,
    TransportEvent,
)
from tandem_kafka.runtime import Random
from tandem_kafka_testing import (
    LivelockError,
    Scheduler,
    SimClock,
    SimNetwork,
    SimTransport,
    Simulation,
    SteppedDriver,
    simulated_consumer,
)
from tandem_kafka_testing.trace import Trace


class Sleeper:
    """A loop that sleeps again and again."""

    def __init__(self, clock: SimClock, sleep_ms: int) -> None:
        self.running = True
        self.finished = False
        self.woke: list[int] = []
        self._clock = clock
        self._sleep_ms = sleep_ms

    def prepare(self) -> int:
        return self._sleep_ms

    def complete(self, transport_events: list[TransportEvent]) -> None:
        del transport_events
        self.woke.append(self._clock.now_ms())

    def run_once(self) -> None:
        raise NotImplementedError

    def finish(self) -> None:
        self.finished = True


class Stage:
    def __init__(self, *sleeps_ms: int) -> None:
        self.clock = SimClock(0)
        self.network = SimNetwork(self.clock, Random(1), Trace(self.clock))
        self.scheduler = Scheduler(self.clock, self.network, Random(1), seed=99)
        self.loops = [Sleeper(self.clock, sleep_ms) for sleep_ms in sleeps_ms]
        self.transports = [SimTransport(self.network) for _ in sleeps_ms]
        self.drivers = [SteppedDriver(self.scheduler, t, Random(1)) for t in self.transports]
        for number, (driver, loop) in enumerate(zip(self.drivers, self.loops, strict=True)):
            driver.start(loop, f"loop {number}")


def test_time_does_not_go_back() -> None:
    clock = SimClock(10)
    clock.advance_to(10)
    with pytest.raises(ValueError, match="back"):
        clock.advance_to(9)


def test_the_wall_clock_advances_with_the_clock() -> None:
    clock = SimClock()
    before = clock.wall_ms()
    clock.advance_to(clock.now_ms() + 5)
    assert clock.wall_ms() == before + 5


def test_loops_wake_up_at_their_time_and_not_before() -> None:
    stage = Stage(100, 30)
    assert not stage.drivers[0].wait(lambda: False, 110)
    assert stage.loops[0].woke == [100]
    assert stage.loops[1].woke[:3] == [30, 60, 90]
    assert 110 <= stage.clock.now_ms() <= 120


def test_a_missing_wakeup_makes_the_application_late() -> None:
    stage = Stage(5_000)
    stage.network.at(10, lambda: None)
    stage.drivers[0].wait(lambda: bool(stage.loops[0].woke), 60_000)
    assert stage.loops[0].woke == [5_000]
    stage.network.at(5_010, stage.transports[0].wakeup)
    stage.drivers[0].wait(lambda: len(stage.loops[0].woke) > 1, 60_000)
    assert stage.loops[0].woke[1] == 5_010


def test_a_livelock_names_the_loop_and_the_seed() -> None:
    stage = Stage(0)
    with pytest.raises(LivelockError, match=r"loop 0.*seed 99"):
        stage.drivers[0].wait(lambda: False, 1_000)


def test_join_steps_until_the_loop_has_ended() -> None:
    stage = Stage(10, 10)
    stage.network.at(500, lambda: setattr(stage.loops[0], "running", False))
    assert not stage.drivers[0].join(400)
    assert stage.drivers[0].join(600)
    assert stage.loops[0].finished
    assert not stage.loops[1].finished


def test_a_loop_that_cannot_be_parked_is_rejected() -> None:
    stage = Stage()
    driver = SteppedDriver(stage.scheduler, SimTransport(stage.network), Random(1))
    with pytest.raises(TypeError, match="prepare"):
        driver.start(object(), "no loop")  # type: ignore[arg-type]


def test_offloaded_work_is_done_later() -> None:
    came: list[object] = []
    stage = Stage()
    driver = SteppedDriver(stage.scheduler, SimTransport(stage.network), Random(1))
    driver.offloaded_ms = 40, 60
    driver.offload(lambda: 5, came.append)

    def fail() -> None:
        raise OSError

    driver.offload(fail, came.append)
    assert came == []
    while stage.clock.now_ms() < 100:
        stage.scheduler.step(100)
        assert stage.clock.now_ms() >= 40 or came == []
    assert 5 in came
    assert [type(each) for each in came if each != 5] == [OSError]


def test_poll_advances_the_time_to_the_next_event() -> None:
    stage = Stage()
    transport = SimTransport(stage.network)
    address = ServerAddress("host", "10.0.0.1", 9092)
    transport.connect(address)
    (refused,) = transport.poll(10_000)
    assert isinstance(refused, ConnectionClosed)
    assert 1 <= stage.clock.now_ms() <= 5
    assert transport.poll(100) == []
    assert stage.clock.now_ms() >= 101
    transport.wakeup()
    before = stage.clock.now_ms()
    assert transport.poll(100) == []
    assert stage.clock.now_ms() == before


def test_a_silent_address_never_responds() -> None:
    stage = Stage()
    transport = SimTransport(stage.network)
    stage.network.silent.add(("10.0.0.1", 9092))
    transport.connect(ServerAddress("host", "10.0.0.1", 9092))
    assert transport.poll(100_000) == []


def test_frames_do_not_overtake_each_other() -> None:
    class Echo:
        def __init__(self) -> None:
            self.got: list[bytes] = []

        def receive(self, _connection: object, frame: bytes) -> None:
            self.got.append(frame)

        def closed(self, connection: object) -> None: ...

    stage, server = Stage(), Echo()
    stage.network.conditions.latency_ms = (1, 1_000)
    stage.network.listen(("10.0.0.1", 9092), server)
    transport = SimTransport(stage.network)
    number = transport.connect(ServerAddress("host", "10.0.0.1", 9092))
    (opened,) = transport.poll(10_000)
    assert isinstance(opened, ConnectionOpened)
    for frame in range(20):
        transport.send(number, b"\0\0\0\1" + bytes([frame]))
    transport.poll(5_000)
    assert server.got == [bytes([frame]) for frame in range(20)]


def test_a_simulated_consumer_needs_one_line() -> None:
    consumer = simulated_consumer(seed=5)
    assert consumer.topics() == set()
    consumer.close()


def test_a_failure_names_its_seed() -> None:
    with pytest.raises(ZeroDivisionError) as raised, Simulation(seed=1234):
        raise ZeroDivisionError
    assert "1234" in "".join(raised.value.__notes__)


def test_the_example_in_the_docstring_runs() -> None:
    with Simulation(seed=1) as simulation:
        simulation.cluster.create_topic("orders")
        partition = TopicPartition("orders", 0)
        simulation.cluster.produce(partition, b"one", b"two")
        consumer = simulation.consumer(auto_offset_reset="earliest")
        consumer.assign([partition])
        assert [record.value for record in consumer.poll(1_000)[partition]] == [b"one", b"two"]
