"""A simulated broker: decodes frames, calls the handlers of the APIs, and responds."""

from __future__ import annotations

from functools import partial
from typing import Any

from kafka import errors
from kafka.protocol.producer import ProduceRequest

from tandem_kafka.wire.messages import (
    ApiVersionsRequest,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatResponse,
)
from tandem_kafka_testing.cluster.apis import APIS, LOGIN, TELEMETRY
from tandem_kafka_testing.cluster.apis.api import error_code
from tandem_kafka_testing.cluster.apis.api_versions import reject_version
from tandem_kafka_testing.cluster.apis.fetch import emptied, size_of
from tandem_kafka_testing.cluster.broker_state import BrokerState
from tandem_kafka_testing.cluster.call import CUT, DROP, NO_RESPONSE, Call
from tandem_kafka_testing.cluster.cluster_state import ClusterState
from tandem_kafka_testing.cluster.releases import Release
from tandem_kafka_testing.cluster.requests import Header, read_body, read_header
from tandem_kafka_testing.cluster.scripts import Scripts
from tandem_kafka_testing.cluster.share_groups import ShareGroups
from tandem_kafka_testing.network import SimConnection


def reject_as_not_enabled(call: Call) -> Any:
    """Return UNSUPPORTED_VERSION in the response to the request."""
    code = error_code(errors.UnsupportedVersionError)
    if call.api_key != ConsumerGroupDescribeRequest.API_KEY:
        return ConsumerGroupHeartbeatResponse(throttle_time_ms=0, error_code=code)
    group = ConsumerGroupDescribeResponse.DescribedGroup
    return ConsumerGroupDescribeResponse(
        throttle_time_ms=0,
        groups=[group(error_code=code, group_id=name) for name in call.request.group_ids],
    )


_PRODUCE = APIS[ProduceRequest.API_KEY]


class SimBroker(BrokerState):
    """A server on the simulated network.

    Like a real broker, it handles the requests of one connection in order. While one is parked (a
    fetch without data, a join), the next ones wait.
    """

    def __init__(
        self,
        cluster: ClusterState,
        scripts: Scripts,
        node_id: int,
        address: tuple[str, int],
        release: Release | None = None,
    ) -> None:
        super().__init__(cluster.clock, node_id, address, release)
        self._cluster = cluster
        self._scripts = scripts
        self._offered: dict[int, tuple[int, int]] = {}
        self._offered_with: tuple[object, ...] | None = None
        self._queues: dict[int, list[Call]] = {}
        self._muted_until_ms: dict[int, int] = {}

    @property
    def offered(self) -> dict[int, tuple[int, int]]:
        """The lowest and the highest version of each API, by its key."""
        receives = self._cluster.telemetry is not None
        depends_on = self.release, frozenset(self._cluster.disabled), receives
        if depends_on != self._offered_with:
            self._offered_with = depends_on
            self._offered = {key: v for key in APIS if (v := self.offers(key)) is not None}
        return self._offered

    def offers(self, api_key: int) -> tuple[int, int] | None:
        """Return the lowest and the highest version of an API, None if it is not offered."""
        if api_key not in APIS or api_key in self._cluster.disabled:
            return None
        if api_key in TELEMETRY:
            return APIS[api_key].versions if self._cluster.telemetry is not None else None
        if self.release is not None:
            return self.release.versions.get(api_key)
        return APIS[api_key].versions

    def receive(self, connection: SimConnection, frame: bytes) -> None:
        """Queue a request behind the unanswered ones of its connection."""
        if self.paused:
            self.postpone(partial(connection.handle, frame))
            return
        header = read_header(frame)
        call = Call(self._cluster, self, connection, *header[:3])
        call.client_id, call.deliver = header.client_id, self.respond
        self._decode(call, header, frame)
        queue = self._queues.setdefault(connection.number, [])
        queue.append(call)
        if len(queue) == 1:
            self._work(queue)

    def _decode(self, call: Call, header: Header, frame: bytes) -> None:
        """Decode a request; one that the broker does not offer cuts the connection."""
        api_key, version = call.api_key, call.version
        api = APIS.get(api_key)
        name = api.name if api is not None else f"request {api_key}"
        self.requests[name] = self.requests.get(name, 0) + 1
        self.received += 1
        what = f"{name} v{version} {len(frame)} bytes"
        self._cluster.trace.note(f"#{call.connection.number} broker {self.node_id} < {what}")
        low, high = self.offers(api_key) or (0, -1)
        if api is _PRODUCE and low <= version < _PRODUCE.versions[0]:
            call.default = lambda: CUT  # Kafka 4 has given up these formats
        elif api is not None and low <= version <= high:
            if not api.versions[0] <= version <= api.versions[1]:
                msg = f"{name} v{version} is not simulated"
                raise NotImplementedError(msg)
            call.request = read_body(header, frame)
            off = self.release is not None and api_key in self.release.not_enabled
            call.default = lambda: reject_as_not_enabled(call) if off else api.handle(call)
        elif api_key == ApiVersionsRequest.API_KEY:
            call.version = 0  # the only version that every client can read
            call.default = lambda: reject_version(call)
        else:
            call.default = lambda: CUT

    def _admits(self, call: Call) -> bool:
        """Return whether the client may send this request: others need a login."""
        if not self._cluster.users or call.api_key in LOGIN:
            return True
        login = self.logins.get(call.connection.number)
        return login is not None and login.user is not None

    def closed(self, connection: SimConnection) -> None:
        """Forget the requests of a closed connection."""
        if self.paused:
            self.postpone(partial(self.closed, connection))
            return
        self.logins.pop(connection.number, None)
        for call in self._queues.pop(connection.number, ()):
            call.responded = True
        self._muted_until_ms.pop(connection.number, None)
        ShareGroups(self._cluster, self).end_connection(connection.number)

    def hang_up(self, connection: SimConnection) -> None:
        """Close a connection; its client notices."""
        self._cluster.network.forget(connection)
        connection.open = True
        connection.cut("the broker hung up")

    def respond(self, call: Call, response: Any) -> None:
        """Respond to a parked request, then continue with the next ones of its connection."""
        if self.paused:
            self.postpone(partial(self.respond, call, response))
            return
        if call.responded:
            return
        self._send(call, response)
        queue = self._queues.get(call.connection.number, [])
        if call in queue:
            queue.remove(call)
            self._work(queue)

    def _send(self, call: Call, response: Any) -> None:
        """Send a response; after a throttled one, nothing is read for its throttle time."""
        if self.quotas.any:
            response = self._throttled(call, response)
        call.respond(response)

    def _throttled(self, call: Call, response: Any) -> Any:
        late = self.release is not None and self.release.throttles_late
        throttle_ms = self.quotas.throttle_ms(
            call.api_key, call.client_id, size_of(response), delivered=late
        )
        if throttle_ms:
            if not late:
                response = emptied(call, response)
            response.throttle_time_ms = throttle_ms
            self._mute(call.connection, throttle_ms)
            call.delay_ms += throttle_ms if late else 0
        return response

    def _mute(self, connection: SimConnection, duration_ms: int) -> None:
        self._cluster.trace.note(f"#{connection.number} is throttled for {duration_ms} ms")
        until_ms = self._cluster.clock.now_ms() + duration_ms
        self._muted_until_ms[connection.number] = until_ms

        def unmute() -> None:
            if self._muted_until_ms.pop(connection.number, None) is not None:
                self._work(self._queues.get(connection.number, []))

        self._cluster.network.at(until_ms, unmute)

    def _work(self, queue: list[Call]) -> None:
        while queue and queue[0].connection.number not in self._muted_until_ms:
            call = queue[0]
            # Invariant: asked when its turn comes, because the login may be in front of it.
            if not self._admits(call):
                call.request, call.default = None, lambda: CUT
            understood = call.request is not None
            handler = self._scripts.take(call.api_key) if understood else None
            call.scripted = handler is not None
            outcome = call.default() if handler is None else handler(call)
            if outcome is None or outcome is DROP:
                return  # parked until `respond`; the requests behind it wait
            queue.pop(0)
            if outcome is NO_RESPONSE:
                continue
            if outcome is CUT:
                self.hang_up(call.connection)
            else:
                self._send(call, outcome)
