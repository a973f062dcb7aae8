"""What is remembered of a broker across its connections: addresses, pauses, failures."""

from __future__ import annotations

import logging
from collections import deque
from typing import Final

from tandem_kafka.network.backoff import Backoff
from tandem_kafka.network.request import Purpose
from tandem_kafka.network.settings import NetworkSettings
from tandem_kafka.network.transport import ServerAddress
from tandem_kafka.runtime import Random
from tandem_kafka.types import Node

__all__ = ["SILENCE_LIMIT_MS", "NodeState"]

log = logging.getLogger(__name__)

_JITTER: Final = 0.2
#: Commits may be held for five seconds (`offsets.commit.timeout.ms`).
SILENCE_LIMIT_MS: Final = 6_000


class NodeState:
    """One broker, shared by its connections of every purpose.

    Attributes:
        node: Where the broker is, as far as known.
        retry_at_ms: No attempt to connect before that.
        failures: Attempts that failed since the last that worked.
        last_error: What the last failure was; None when it works.
        silent: True from the moment it left something unanswered until it answers: as long as there
            are others, none asks it anything that any broker can answer.
    """

    __slots__ = (
        "_backoff",
        "_random",
        "_settings",
        "_silence_limits_ms",
        "_untried",
        "failures",
        "last_error",
        "node",
        "retry_at_ms",
        "silent",
    )

    def __init__(self, node: Node, settings: NetworkSettings, random: Random) -> None:
        self.node = node
        self._settings = settings
        self._random = random
        self._backoff = Backoff(
            settings.reconnect_backoff_ms, settings.reconnect_backoff_max_ms, random, _JITTER
        )
        self._untried: dict[Purpose, deque[ServerAddress]] = {}
        self.retry_at_ms = 0
        self.failures = 0
        self.last_error: Exception | None = None
        self.silent = False
        #: Where connections were given up for silence: how long the next ones may be silent.
        self._silence_limits_ms: dict[Purpose, int] = {}

    def is_at(self, node: Node) -> bool:
        """True when `node` has the address known here."""
        return self.node.host == node.host and self.node.port == node.port

    def move(self, node: Node) -> None:
        """The broker has another address: what was remembered is about the old one."""
        log.debug("%s is now at %s:%d", self.node, node.host, node.port)
        self.node = node
        self._untried.clear()
        self.retry_at_ms = 0
        self.failures = 0
        self.last_error = None
        self.silent = False
        self._backoff.reset()

    @property
    def unreachable(self) -> bool:
        """True when it did not answer, or could not be connected to, when it was last asked."""
        return self.silent or self.last_error is not None

    def in_backoff(self, now_ms: int) -> bool:
        """True while no attempt may be made."""
        return now_ms < self.retry_at_ms

    def allow_retry(self) -> None:
        """There is news that speaks for the broker: the next attempt need not wait."""
        self.retry_at_ms = 0
        self._backoff.reset()

    def responded(self, purpose: Purpose, waited_ms: int) -> None:
        """It has answered something, so long after that was due."""
        self.silent = False
        if self._silence_limits_ms and waited_ms < SILENCE_LIMIT_MS:
            self._silence_limits_ms.pop(purpose, None)

    def silence_limit_ms(self, purpose: Purpose) -> int:
        """Return how long after an answer was due its silence becomes suspicious."""
        return self._silence_limits_ms.get(purpose, SILENCE_LIMIT_MS)

    def extend_silence_limit(self, purpose: Purpose) -> None:
        """A connection was given up for silence: the next may be silent for longer.

        By purpose: a broker may be slow to fetch from a cold tier, and quick with all else.
        """
        longest_ms = self._settings.request_timeout_ms
        self._silence_limits_ms[purpose] = min(2 * self.silence_limit_ms(purpose), longest_ms)

    def setup_timeout_ms(self) -> int:
        """How long the next attempt may take: twice as long after every failure (KIP-601)."""
        initial_ms = self._settings.socket_connection_setup_timeout_ms
        longest_ms = self._settings.socket_connection_setup_timeout_max_ms
        plain_ms = min(initial_ms << min(self.failures, 20), longest_ms)
        return max(1, int(plain_ms * self._random.uniform(1 - _JITTER, 1 + _JITTER)))

    def untried(self, purpose: Purpose) -> deque[ServerAddress]:
        """Addresses not tried yet; with none left, the name is to be looked up again.

        By purpose, or two connections that are made at the same time would each get one half.
        """
        return self._untried.setdefault(purpose, deque())

    def succeeded(self, purpose: Purpose) -> None:
        """A broker has answered."""
        if self.failures:
            log.info("%s works again after %d failed attempts", self.node, self.failures)
        self.failures = 0
        self.last_error = None
        self.retry_at_ms = 0
        self._backoff.reset()
        # The name is looked up anew for the next connection: it may have moved by then.
        self._untried.pop(purpose, None)

    def failed(self, error: Exception, now_ms: int) -> None:
        """An attempt to connect failed."""
        self.failures += 1
        if self.failures == 1:
            log.warning("%s cannot be used: %s", self.node, error)
        else:
            log.debug("%s cannot be used (%d times): %s", self.node, self.failures, error)
        self._pause(error, now_ms)

    def lost(self, error: Exception, now_ms: int) -> None:
        """A connection that worked was lost."""
        log.debug("%s: connection lost: %s", self.node, error)
        self._pause(error, now_ms)

    def _pause(self, error: Exception, now_ms: int) -> None:
        self.last_error = error
        # A broker that goes down takes several connections with it; that is one failure.
        if not self.in_backoff(now_ms):
            self.retry_at_ms = now_ms + self._backoff.next_ms()
