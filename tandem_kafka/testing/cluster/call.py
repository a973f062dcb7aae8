"""One request on its way through a simulated broker."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tandem_kafka.testing.network import SimConnection
from tandem_kafka.wire.framing import encode_message

if TYPE_CHECKING:
    from tandem_kafka.testing.cluster.broker import SimBroker
    from tandem_kafka.testing.cluster.cluster import SimCluster

__all__ = ["CUT", "DROP", "Call", "Handler"]

_API_VERSIONS = 18


class _Outcome:
    """What a scripted handler may return in place of a response."""


#: Never answer; nor what comes behind it on the connection.
DROP: Final = _Outcome()
#: Cut the connection instead of answering.
CUT: Final = _Outcome()


@dataclass(slots=True, eq=False)
class Call:
    """A decoded request, and the way back.

    Attributes:
        client_id: Who asks.
        request: kafka-python's request object; None if the broker does not understand it.
        delay_ms: How much later than at once the answer leaves; for scripts.
        scripted: Whether a test answers it: what the broker itself would say may be changed.
        default: What the broker itself would answer; for scripts. None if it answers later.
    """

    cluster: SimCluster
    broker: SimBroker
    connection: SimConnection
    api_key: int
    version: int
    correlation_id: int
    request: Any = None
    default: Callable[[], Any] = field(default=lambda: None)
    delay_ms: int = 0
    answered: bool = False
    client_id: str = ""
    scripted: bool = False

    @property
    def may_be_changed(self) -> bool:
        """True when somebody may change what is answered: a test, or a quota."""
        return self.scripted or self.broker.quotas.any

    def answer(self, response: Any) -> None:
        """Send the answer, once."""
        if self.answered or not self.connection.open:
            return
        self.answered = True
        body = encode_message(response, self.version)
        # The answer to ApiVersions keeps the old header, so that every client can read it.
        flexible = response.flexible_version_q(self.version) and self.api_key != _API_VERSIONS
        header = struct.pack(">i", self.correlation_id) + b"\0" * flexible
        self.connection.reply(header + body, self.delay_ms)


#: Answers a call: with a response, or None if it is answered later through `Call.answer`.
Handler = Callable[[Call], Any]
