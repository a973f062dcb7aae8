"""One request to a simulated broker."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from tandem_kafka.wire.framing import encode_message
from tandem_kafka_testing.cluster.broker_state import BrokerState
from tandem_kafka_testing.cluster.cluster_state import ClusterState
from tandem_kafka_testing.network import SimConnection

_API_VERSIONS = 18


class _Outcome:
    """A result of a scripted handler other than a response."""


#: Never respond, neither to this request nor to later ones of its connection.
DROP: Final = _Outcome()
#: Cut the connection instead of responding.
CUT: Final = _Outcome()
#: The client wants no response (`acks=0`); continue with the next request of its connection.
NO_RESPONSE: Final = _Outcome()


@dataclass(slots=True, eq=False)
class Call:
    """A decoded request and the way to its response.

    Attributes:
        request: kafka-python's request object; None if the broker does not support the request.
        default: Returns the response of the broker, None if it responds later; for scripts.
        delay_ms: Delay of the response; for scripts.
        client_id: The client that sent the request.
        scripted: Whether a test responds: it may change the response of the broker.
        deliver: Sends the response to a parked call; see `respond_later`.
    """

    cluster: ClusterState
    broker: BrokerState
    connection: SimConnection
    api_key: int
    version: int
    correlation_id: int
    request: Any = None
    default: Callable[[], Any] = field(default=lambda: None)
    delay_ms: int = 0
    responded: bool = False
    client_id: str = ""
    scripted: bool = False
    deliver: Callable[[Call, Any], None] = field(default=lambda call, it: call.respond(it))

    @property
    def may_be_changed(self) -> bool:
        """True if a test or a quota may change the response."""
        return self.scripted or self.broker.quotas.any

    def respond_later(self, response: Any) -> None:
        """Respond to a parked call, then continue with the next requests of its connection."""
        self.deliver(self, response)

    def respond(self, response: Any) -> None:
        """Send the response, once."""
        if self.responded or not self.connection.open:
            return
        self.responded = True
        body = encode_message(response, self.version)
        # The response to ApiVersions keeps the old header, so that every client can read it.
        flexible = response.flexible_version_q(self.version) and self.api_key != _API_VERSIONS
        header = struct.pack(">i", self.correlation_id) + b"\0" * flexible
        self.connection.reply(header + body, self.delay_ms)


#: Handles a call: returns the response, or None if `Call.respond_later` sends it later.
Handler = Callable[[Call], Any]
