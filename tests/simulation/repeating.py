"""A simulation whose transports repeat fetches by themselves, as the native one does."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tandem_kafka.network.transport import FrameReceived, TransportEvent
from tandem_kafka.runtime import Runtime
from tandem_kafka.runtime.native import native
from tandem_kafka_testing import Simulation
from tandem_kafka_testing.driver import SteppedDriver
from tandem_kafka_testing.network import SimNetwork, SimTransport

if TYPE_CHECKING:
    from tandem_kafka._native import StandingFetch

__all__ = ["RepeatingSimulation", "RepeatingTransport"]


class RepeatingTransport(SimTransport):
    """Gives the responses of a connection to its standing fetch, and sends what it requests next.

    Attributes:
        repeated: The number of repeated fetches.
        held: How many of them had to wait for room.
        handed_over: How many standing fetches ended in that state.
        look: Called before each event of the network, while the loop of the consumer is parked.
    """

    def __init__(self, network: SimNetwork) -> None:
        super().__init__(network)
        #: The standing fetches by connection, and when each sent its last request.
        self._standing: dict[int, tuple[StandingFetch, int]] = {}
        self.repeated = 0
        self.held = self.handed_over = 0
        self.look: Callable[[], None] = lambda: None

    @property
    def ready(self) -> bool:
        """True when `poll` would return at once; fetches that were held go on before."""
        self._resume()
        return self._ready

    @ready.setter
    def ready(self, ready: bool) -> None:
        self._ready = ready

    def repeat_fetches(self, connection: int, standing: StandingFetch) -> bool:
        """Repeat the fetch in flight on a connection."""
        self._standing[connection] = standing, self._network.clock.now_ms()
        return True

    def disconnect(self, connection: int) -> None:
        """Close a connection and forget its standing fetch."""
        self._standing.pop(connection, None)
        super().disconnect(connection)

    def arrived(self, event: TransportEvent) -> None:
        """Let a standing fetch take a response, or queue it for Python."""
        self.look()
        if not (isinstance(event, FrameReceived) and self._repeats(event)):
            super().arrived(event)

    def _repeats(self, event: FrameReceived) -> bool:
        fetch, sent_ms = self._standing.pop(event.connection, (None, 0))
        if fetch is None:
            return False
        now_ms = self._network.clock.now_ms()
        request = fetch.respond(bytes(event.frame), now_ms - sent_ms)
        if request is None:
            return False
        self._standing[event.connection] = fetch, now_ms
        if request:
            self.repeated += 1
            self.send(event.connection, request)
        else:
            self.held += 1
        return True

    def _resume(self) -> None:
        for connection, (fetch, since_ms) in tuple(self._standing.items()):
            now_ms = self._network.clock.now_ms()
            request = fetch.resume(now_ms - since_ms)
            if request is not None:
                self._standing[connection] = fetch, now_ms
                self.repeated += 1
                self.send(connection, request)
            ended = fetch.hand_over()
            if ended is not None:
                del self._standing[connection]
                self.handed_over += 1
                frame, size = ended
                elsewhere = size - len(frame) - 4
                super().arrived(FrameReceived(connection, memoryview(frame), elsewhere))


class RepeatingSimulation(Simulation):
    """A `Simulation` with such transports, and a notifier that no thread waits for."""

    def _environment(self) -> tuple[Runtime, RepeatingTransport]:
        assert native is not None
        number = len(self.drivers) + 1
        transport = RepeatingTransport(self.network)
        driver = SteppedDriver(self._scheduler, transport, self._random_for(f"driver {number}"))
        driver.notifier = native.Notifier()
        self.drivers.append(driver)
        return Runtime(self.clock, driver, self._random_for(f"consumer {number}")), transport
