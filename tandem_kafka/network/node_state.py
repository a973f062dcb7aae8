"""The state of a broker across its connections: addresses, backoff and failures."""

from __future__ import annotations

from collections import deque
from typing import Final

from tandem_kafka.config import Config
from tandem_kafka.errors import reason_of
from tandem_kafka.logs import client_logger
from tandem_kafka.network.backoff import Backoff
from tandem_kafka.network.outages import Outage, Outages
from tandem_kafka.network.request import Purpose
from tandem_kafka.network.transport import ServerAddress
from tandem_kafka.runtime import Random
from tandem_kafka.types import Node

log = client_logger(__name__)

_JITTER: Final = 0.2
#: Longer than the five seconds for which a broker may hold a commit (`offsets.commit.timeout.ms`).
SILENCE_LIMIT_MS: Final = 6_000

#: If an attempt to connect has been allowed for so long, no request waits for a new connection.
UNUSED_MS: Final = 2_000
#: A response is late if it comes this long after it was due.
LATE_MS: Final = 1_000
#: A broker is slow if its responses are late for this time.
SLOW_MS: Final = 1_000


class NodeState:
    """The state of one broker, shared by its connections. Writer: the network thread.

    Attributes:
        node: The broker with its last known address.
        retry_at_ms: When the next attempt to connect is allowed.
        failures: The number of failed attempts since the last success.
        last_error: The error of the last attempt, or None after success.
        failing_since_ms: When the first of the present failures occurred.
        late_ms: How late the last response was.
        silent: Whether the broker has not responded to a request in time. Until it responds,
            requests for any broker go to others if possible.
    """

    __slots__ = (
        "_backoff",
        "_outage",
        "_outages",
        "_random",
        "_settings",
        "_silence_limits_ms",
        "_slowness",
        "_untried",
        "failing_since_ms",
        "failures",
        "last_error",
        "late_ms",
        "node",
        "retry_at_ms",
        "silent",
    )

    def __init__(self, node: Node, settings: Config, random: Random, outages: Outages) -> None:
        self.node = node
        self._outages = outages
        self._outage: Outage = outages.of(node)
        self._slowness = Outage(SLOW_MS)
        self._settings = settings
        self._random = random
        self._backoff = Backoff(
            settings.reconnect_backoff_ms, settings.reconnect_backoff_max_ms, random, _JITTER
        )
        self._untried: dict[Purpose, deque[ServerAddress]] = {}
        self.retry_at_ms = 0
        self.failures = 0
        self.failing_since_ms = 0
        self.last_error: Exception | None = None
        self.silent = False
        self.late_ms = 0
        #: Increased limits, by purpose, after connections were closed because of silence.
        self._silence_limits_ms: dict[Purpose, int] = {}

    def is_at(self, node: Node) -> bool:
        """Tell whether `node` has the known address."""
        return self.node.host == node.host and self.node.port == node.port

    def move(self, node: Node) -> None:
        """Set a new address, and forget the state of the old one."""
        log.debug("%s is now at %s:%d", self.node, node.host, node.port, fields=self._fields())
        self.node = node
        self._outage = self._outages.of(node)
        self._untried.clear()
        self.retry_at_ms = 0
        self.failures = 0
        self.last_error = None
        self.silent = False
        self._backoff.reset()

    @property
    def unreachable(self) -> bool:
        """True if the last request or attempt to connect failed."""
        return self.silent or self.last_error is not None

    def in_backoff(self, now_ms: int) -> bool:
        """Tell whether no attempt to connect is allowed now."""
        return now_ms < self.retry_at_ms

    def allow_retry(self) -> None:
        """End the backoff, because a response names this broker."""
        self.retry_at_ms = 0
        self._backoff.reset()

    def responded(
        self, purpose: Purpose, latency_ms: int, held_ms: int | None, now_ms: int
    ) -> None:
        """Record a response to a request that the broker may have parked for `held_ms`."""
        waited_ms = latency_ms - (held_ms or 0)
        self.silent = False
        if self.last_error is not None and now_ms - self.retry_at_ms > UNUSED_MS:
            # Invariant: one that was lost, or refused, and that nobody needs, says nothing of the
            # broker. The others are usable.
            self.last_error, self.failures = None, 0
        self._note_lateness(0 if held_ms is None else waited_ms, now_ms)
        if self._outage.succeeded(now_ms):
            log.warning(
                "%s is back after %d s; failed attempts: %d",
                self._outage.name,
                self._outage.lasted_s,
                self._outage.failures,
                fields=self._fields(),
            )
        if self._silence_limits_ms and waited_ms < SILENCE_LIMIT_MS:
            self._silence_limits_ms.pop(purpose, None)

    def _note_lateness(self, late_ms: int, now_ms: int) -> None:
        self.late_ms = late_ms
        if late_ms > LATE_MS and self._slowness.failed(now_ms):
            log.warning(
                "%s is slow: its last response was %.1f s late",
                self.node,
                late_ms / 1_000,
                fields=self._fields(),
            )
        elif late_ms <= LATE_MS and self._slowness.succeeded(now_ms):
            log.warning(
                "%s is no longer slow after %d s; late responses: %d",
                self.node,
                self._slowness.lasted_s,
                self._slowness.failures,
                fields=self._fields(),
            )

    def silence_limit_ms(self, purpose: Purpose) -> int:
        """Return how long after a response was due the connection is suspected."""
        return self._silence_limits_ms.get(purpose, SILENCE_LIMIT_MS)

    def extend_silence_limit(self, purpose: Purpose) -> None:
        """Double the limit, after a connection was closed because of silence.

        The limit depends on the purpose: a broker may be slow to fetch from remote storage, but
        fast otherwise.
        """
        longest_ms = self._settings.request_timeout_ms
        self._silence_limits_ms[purpose] = min(2 * self.silence_limit_ms(purpose), longest_ms)

    def setup_timeout_ms(self, purpose: Purpose) -> int:
        """Return the timeout of the next attempt, which doubles with each failure (KIP-601)."""
        initial_ms = self._settings.socket_connection_setup_timeout_ms
        longest_ms = self._settings.socket_connection_setup_timeout_max_ms
        if purpose is Purpose.PROBE:  # requests wait for it, and it may be cut off as well
            longest_ms = min(longest_ms, SILENCE_LIMIT_MS)
        plain_ms = min(initial_ms << min(self.failures, 20), longest_ms)
        jittered_ms = int(plain_ms * self._random.uniform(1 - _JITTER, 1 + _JITTER))
        return max(1, min(jittered_ms, longest_ms))

    def untried(self, purpose: Purpose) -> deque[ServerAddress]:
        """Return the addresses not tried yet; if none is left, the name must be looked up again.

        They are kept by purpose. Otherwise two concurrent attempts would share the addresses, and
        each would only try some of them.
        """
        return self._untried.setdefault(purpose, deque())

    def succeeded(self, purpose: Purpose) -> None:
        """Record that the broker has responded on a new connection."""
        self.failures = 0
        self.last_error = None
        self.retry_at_ms = 0
        self._backoff.reset()
        # Look up the name again for the next connection, because its address may change.
        self._untried.pop(purpose, None)

    def failed(self, error: Exception, now_ms: int) -> None:
        """Record that an attempt to connect failed."""
        self.failures += 1
        again = self._outage.reported
        logged = self._outage.failed(now_ms)
        if not logged:
            log.debug(
                "cannot use %s after %d attempts: %s",
                self.node,
                self.failures,
                reason_of(error),
                fields=self._fields(),
            )
        elif again:
            log.warning(
                "still cannot use %s after %d s and %d attempts: %s",
                self._outage.name,
                self._outage.lasted_s,
                self._outage.failures,
                reason_of(error),
                fields=self._fields(),
            )
        else:
            log.warning(
                "cannot use %s, retrying: %s",
                self._outage.name,
                reason_of(error),
                fields=self._fields(),
            )
        self._pause(error, now_ms)

    def overdue(self, overdue_ms: int, now_ms: int) -> None:
        """Record that a response is overdue; the broker may hang."""
        if self._outage.failed(now_ms):
            log.warning(
                "%s has not responded for %.1f s",
                self._outage.name,
                overdue_ms / 1_000,
                fields=self._fields(),
            )

    def fell_silent(self) -> None:
        """Record that a response is overdue for so long that a probe must check the broker."""
        self.silent = True
        log.debug("%s is silent; probing it", self.node, fields=self._fields())

    def lost(self, error: Exception, now_ms: int) -> None:
        """Record that an established connection was lost."""
        log.debug("connection to %s lost: %s", self.node, error, fields=self._fields())
        self._pause(error, now_ms)

    def _fields(self) -> dict[str, object]:
        return {"node_id": self.node.node_id, "host": self.node.host, "port": self.node.port}

    def trouble(self, now_ms: int) -> str | None:
        """Say why the broker cannot be used, or None if it can; any thread may call this."""
        error = self.last_error
        if error is not None:
            since_s = (now_ms - self.failing_since_ms) / 1000
            reason = reason_of(error).removeprefix(f"{self.node} ")
            return f"{self.node} has been unusable for {since_s:.1f} s: {reason}"
        return f"{self.node} does not respond" if self.silent else None

    def _pause(self, error: Exception, now_ms: int) -> None:
        if self.last_error is None:
            self.failing_since_ms = now_ms
        self.last_error = error
        # The loss of several connections to a failing broker counts as one failure.
        if not self.in_backoff(now_ms):
            self.retry_at_ms = now_ms + self._backoff.next_ms()
