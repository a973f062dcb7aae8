"""One simulated broker: frames to calls, calls to handlers."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from tandem_kafka.testing.cluster.apis import APIS
from tandem_kafka.testing.cluster.call import CUT, DROP, Call
from tandem_kafka.testing.cluster.fetch_sessions import FetchSessions
from tandem_kafka.testing.network import SimConnection

if TYPE_CHECKING:
    from tandem_kafka.testing.cluster.cluster import SimCluster

__all__ = ["SimBroker"]

_HEADER = struct.Struct(">hhi")


class SimBroker:
    """A server on the network.

    A real broker answers the requests of one connection in their order: while one is parked (a
    fetch without data, a join), those behind it wait.

    Attributes:
        up: False while it is down.
        sessions: The fetch sessions it remembers.
        requests: How many requests it got, by the name of the request.
    """

    def __init__(self, cluster: SimCluster, node_id: int, host: str, port: int) -> None:
        self._cluster = cluster
        self.node_id = node_id
        self.host = host
        self.port = port
        self.rack: str | None = None
        self.up = True
        self.sessions = FetchSessions()
        self.requests: dict[str, int] = {}
        self._queues: dict[int, list[Call]] = {}

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        return self.host, self.port

    def receive(self, connection: SimConnection, frame: bytes) -> None:
        """Queue a request behind those that its connection still waits for."""
        api_key, version, correlation_id = _HEADER.unpack_from(frame)
        api = APIS[api_key]
        request = api.request.decode(frame, version=version, header=True)
        self.requests[request.name] = self.requests.get(request.name, 0) + 1
        what = f"{request.name} v{version} {len(frame)} bytes"
        self._cluster.trace.note(f"#{connection.number} broker {self.node_id} < {what}")
        call = Call(self._cluster, self, connection, api_key, version, correlation_id, request)
        call.default = lambda: api.handle(call)
        queue = self._queues.setdefault(connection.number, [])
        queue.append(call)
        if len(queue) == 1:
            self._work(queue)

    def closed(self, connection: SimConnection) -> None:
        """Forget what a connection waited for."""
        for call in self._queues.pop(connection.number, ()):
            call.answered = True

    def answer(self, call: Call, response: object) -> None:
        """Send a late answer, then go on with what came behind it on the same connection."""
        if call.answered:
            return
        call.answer(response)
        queue = self._queues.get(call.connection.number, [])
        if call in queue:
            queue.remove(call)
            self._work(queue)

    def _work(self, queue: list[Call]) -> None:
        while queue:
            call = queue[0]
            handler = self._cluster.take_script(call.api_key)
            outcome = call.default() if handler is None else handler(call)
            if outcome is None or outcome is DROP:
                return  # parked: `answer` goes on; where it never comes, nothing behind it either
            queue.pop(0)
            if outcome is CUT:
                self._cluster.network.forget(call.connection)
                call.connection.open = True
                call.connection.cut("the broker hung up")
            else:
                call.answer(outcome)
