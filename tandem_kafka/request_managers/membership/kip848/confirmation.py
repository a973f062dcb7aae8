"""Holds records back while other members may own the partitions of a KIP-848 member.

A coordinator removes a member whose heartbeats do not arrive, and gives its partitions to others.
The member hears of it with its next heartbeat, and may have returned thousands of their records by
then. KIP-848 does not tell it how long a session lasts.
"""

from __future__ import annotations

from collections.abc import Iterable

from tandem_kafka.network.backoff import FOREVER_MS
from tandem_kafka.network.request import ToNode, UnsentRequest
from tandem_kafka.request_managers.base import IDLE, PollResult, RequestState
from tandem_kafka.request_managers.context import ManagerContext
from tandem_kafka.wire.messages import MetadataRequest

#: Sessions are assumed to last as many heartbeats as by Kafka's defaults, 45 s to 5 s.
SESSION_HEARTBEATS = 9
#: How long records are held back once a broker responds again: longer than a connection to the
#: coordinator takes to open, after which the heartbeat is answered. If it is not answered, the
#: coordinator is down, and reading continues without it.
HOLD_MS = 15_000


class Confirmation:
    """Whether the coordinator has lately confirmed that this consumer is a member."""

    def __init__(self, context: ManagerContext) -> None:
        self._context = context
        self._metadata = context.metadata
        self._subscription = context.subscription
        self._confirmed_ms = 0
        self._cut_off = False
        self._cut_off_ms = 0
        self._asking: dict[int, RequestState] = {}

    def confirm(self, now_ms: int, latency_ms: int, interval_ms: int) -> None:
        """Note the response to a heartbeat; return records again unless it comes too late.

        Args:
            now_ms: The time.
            latency_ms: The time since the heartbeat was sent, from when the session lasts.
            interval_ms: The interval of heartbeats.
        """
        self._confirmed_ms = max(self._confirmed_ms, now_ms - latency_ms)
        if self._left_ms(now_ms, interval_ms) > 0:
            self._cut_off = False
            self._hold(False)

    def poll(self, now_ms: int, interval_ms: int) -> PollResult:
        """Hold records back, or return them; return when to check again."""
        left_ms = self._left_ms(now_ms, interval_ms)
        if left_ms > 0:
            return PollResult(wait_ms=left_ms)
        leaders = {state.leader_id for state in self._subscription.assigned.values()}
        before, self._cut_off = self._cut_off, self._is_cut_off(leaders)
        if before or self._cut_off:
            # Nothing can be read now, or could until now: managers are polled when a broker can be
            # used again. The first fetch may succeed before the first heartbeat.
            self._cut_off_ms = now_ms
        left_ms = self._cut_off_ms + HOLD_MS - now_ms
        self._hold(left_ms > 0)
        if left_ms <= 0:
            return IDLE
        asks = self._cut_off and self._nothing_is_fetched()
        unsent, wait_ms = self._ask(leaders, now_ms) if asks else IDLE
        return PollResult(unsent, min(left_ms, wait_ms))

    def _nothing_is_fetched(self) -> bool:
        """Tell whether no fetch can find out that a leader can be reached again."""
        states = self._subscription.assigned.values()
        return self._context.buffer.is_full or not any(state.fetchable for state in states)

    def _left_ms(self, now_ms: int, interval_ms: int) -> int:
        return self._confirmed_ms + SESSION_HEARTBEATS * interval_ms - now_ms

    def _is_cut_off(self, leaders: set[int]) -> bool:
        # Invariant: only leaders count. While only the coordinator is missing, reading continues.
        return bool(leaders) and leaders <= self._metadata.unreachable

    def _ask(self, leaders: Iterable[int], now_ms: int) -> PollResult:
        """Send a small request to each leader; its response ends the wait for them.

        While the buffer is full, no fetch is sent, and the hold keeps it full.
        """
        nodes, unsent, wait_ms = self._metadata.snapshot.nodes, [], FOREVER_MS
        for node_id in sorted(leaders):
            state = self._asking.setdefault(node_id, self._context.request_state())
            left_ms = state.wait_ms(now_ms)
            wait_ms = min(wait_ms, left_ms)
            if left_ms <= 0 and node_id in nodes:
                unsent.append(self._question(ToNode(nodes[node_id]), state))
        return PollResult(tuple(unsent), wait_ms if wait_ms > 0 else FOREVER_MS)

    def _question(self, destination: ToNode, state: RequestState) -> UnsentRequest:
        return self._context.request(
            MetadataRequest(topics=[], min_version=1),
            destination,
            on_response=lambda _: None,
            on_error=lambda _: None,
            state=state,
        )

    def _hold(self, hold: bool) -> None:
        for state in self._subscription.assigned.values():
            if state.unconfirmed != hold:
                state.unconfirmed = hold
