"""Which requests fail, since when and why, until one of their kind succeeds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

#: Shorter failures are usual: elections, restarts and new topics take seconds.
LASTING_MS: Final = 10_000
#: Without another failure for so long, nobody asks any more. A request may time out in between.
FORGOTTEN_MS: Final = 60_000


class Failing(NamedTuple):
    """Requests that fail for long.

    Attributes:
        api: The name of the request.
        node_id: The broker, -1 for any.
        text: Since when, and why.
    """

    api: str
    node_id: int
    text: str


@dataclass(frozen=True, slots=True)
class _Failure:
    since_ms: int
    last_ms: int
    error: str


class Failures:
    """The requests that fail, by their API and broker. Writer: the network thread."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, int], _Failure] = {}

    def failed(self, api: str, node_id: int, error: BaseException, now_ms: int) -> bool:
        """Note that a request failed, or a part of it; return whether the last one did, too."""
        before = self._found.get((api, node_id))
        again = before is not None and now_ms - before.last_ms <= FORGOTTEN_MS
        since_ms = before.since_ms if before is not None and again else now_ms
        text = f"{type(error).__name__}: {error}"
        self._found[api, node_id] = _Failure(since_ms, now_ms, text)
        return again

    def succeeded(self, api: str, node_id: int) -> None:
        """Note that all of a request succeeded."""
        if self._found:
            self._found.pop((api, node_id), None)

    def lasting(self, now_ms: int) -> Iterator[Failing]:
        """Return the requests whose failures do not end."""
        found = tuple(self._found.items())  # the other thread adds to them
        for (api, node_id), each in sorted(found, key=lambda item: item[0]):
            if each.last_ms - each.since_ms < LASTING_MS or now_ms - each.last_ms > FORGOTTEN_MS:
                continue
            asked = "the brokers" if node_id < 0 else f"broker {node_id}"
            lasted_s = (now_ms - each.since_ms) / 1000
            text = f"{asked}: {api} has failed for {lasted_s:.1f} s: {each.error}"
            yield Failing(api, node_id, text)
