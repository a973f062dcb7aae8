"""The state of a simulated broker."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from tandem_kafka_testing.clock import NEVER_MS, SimClock
from tandem_kafka_testing.cluster.fetch_sessions import FetchSessions
from tandem_kafka_testing.cluster.logins import Login
from tandem_kafka_testing.cluster.quotas import Quotas
from tandem_kafka_testing.cluster.releases import Release
from tandem_kafka_testing.network import SimConnection
from tandem_kafka_testing.share.partition import SharePartition
from tandem_kafka_testing.share.sessions import ShareSessions


@dataclass(slots=True, eq=False)
class LedShare:
    """A share partition in the memory of its leader.

    Attributes:
        epoch: The leader epoch in which it was loaded.
        timer_ms: The next check of its locks.
        late: Whether locks have ended while the broker was paused, and are not released yet.
    """

    epoch: int
    share: SharePartition
    timer_ms: int = NEVER_MS
    late: bool = False


class BrokerState(ABC):
    """A broker of the cluster, without the handling of requests.

    Attributes:
        up: Whether it runs.
        paused: Whether its process is stopped. The machine still accepts connections and bytes, and
            the broker handles them when it continues, even if their senders are gone.
        release: The Kafka release that it simulates. None enables all features, also those that no
            release has.
        sessions: Its fetch sessions.
        share_sessions: Its share sessions.
        share_partitions: The share partitions that it leads, by group, topic and number.
        share_loading: Those that it is loading.
        logins: The logins of its connections, by number.
        quotas: The quotas of its clients.
        requests: Number of requests received, by name.
        received: Number of all requests received.
    """

    def __init__(
        self,
        clock: SimClock,
        node_id: int,
        address: tuple[str, int],
        release: Release | None = None,
    ) -> None:
        self.node_id = node_id
        self.host, self.port = address
        self.release = release
        self.rack: str | None = None
        self.up = True
        self.paused = False
        self.sessions = FetchSessions()
        self.share_sessions = ShareSessions()
        self.share_partitions: dict[tuple[str, UUID, int], LedShare] = {}
        self.share_loading: set[tuple[str, UUID, int]] = set()
        self.logins: dict[int, Login] = {}
        self.quotas = Quotas(clock)
        self.requests: dict[str, int] = {}
        self.received = 0
        #: Work that arrived during the pause.
        self._postponed: list[Callable[[], None]] = []

    @property
    @abstractmethod
    def offered(self) -> dict[int, tuple[int, int]]:
        """The lowest and the highest version of each API, by its key."""

    @abstractmethod
    def receive(self, connection: SimConnection, frame: bytes) -> None:
        """Handle a frame of a client."""

    @abstractmethod
    def closed(self, connection: SimConnection) -> None:
        """Forget a connection that its client has closed."""

    @abstractmethod
    def hang_up(self, connection: SimConnection) -> None:
        """Close a connection; its client notices."""

    @property
    def serves(self) -> bool:
        """True while it is up and not paused."""
        return self.up and not self.paused

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        return self.host, self.port

    def end(self) -> None:
        """End the process; requests that it has not handled are lost."""
        self.up = self.paused = False
        self.sessions.clear()
        self.share_sessions.clear()
        self.share_partitions.clear()
        self.share_loading.clear()
        self._postponed.clear()

    def postpone(self, action: Callable[[], None]) -> None:
        """Do something after the pause."""
        self._postponed.append(action)

    def continue_after_pause(self) -> None:
        """Continue after a pause, with everything that has arrived, in order."""
        self.paused = False
        postponed, self._postponed = self._postponed, []
        for action in postponed:
            action()
