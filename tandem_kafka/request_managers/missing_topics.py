"""Topics that the application has subscribed to or assigned, and that the cluster does not have."""

from __future__ import annotations

from collections.abc import Iterable

from tandem_kafka.logs import client_logger

__all__ = ["PATIENCE_MS", "MissingTopics"]

log = client_logger(__name__)

#: A topic that was just created, or that the consumer creates itself, appears within this time.
PATIENCE_MS = 1_000


class MissingTopics:
    """Warns once about each topic, because a mistyped name would otherwise stay unnoticed."""

    def __init__(self) -> None:
        #: When each topic was first missing.
        self._since_ms: dict[str, int] = {}
        self._warned: set[str] = set()

    def update(self, missing: Iterable[str], now_ms: int) -> None:
        """Note which topics the last metadata response lacked."""
        known = set(missing)
        for name in sorted(self._warned - known):
            log.info(
                "the topic %r is available now, or is no longer wanted",
                name,
                fields={"topic": name},
            )
        self._warned &= known
        self._since_ms = {name: self._since_ms.get(name, now_ms) for name in known}
        late = sorted(
            name
            for name, since_ms in self._since_ms.items()
            if now_ms - since_ms >= PATIENCE_MS and name not in self._warned
        )
        for name in late:
            log.warning(
                "the topic %r does not exist, or this client may not see it; there are no records "
                "until it appears: check the name",
                name,
                fields={"topic": name},
            )
        self._warned.update(late)
