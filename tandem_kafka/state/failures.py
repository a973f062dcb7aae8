"""Which requests fail, since when and why, until one of their kind succeeds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from tandem_kafka.dataclass import dataclass

#: Shorter failures are usual: elections, restarts and new topics take seconds.
LASTING_MS: Final = 10_000
#: Without another failure for so long, nobody asks any more. A request may time out in between.
FORGOTTEN_MS: Final = 60_000


class FailingRequest(NamedTuple):
    """Requests that fail for long.

    Attributes:
        api: The name of the request.
        node_id: The broker, -1 for any.
        text: Since when, and why.
    """

    api: str
    node_id: int
    text: str


@dataclass(frozen=True)
class Failing:
    """What fails, from the first failure in a row to the last.

    Attributes:
        since_ms: When it failed first.
        last_ms: When it failed last.
        error: The last error.
    """

    since_ms: int
    last_ms: int
    error: str

    @classmethod
    def again(cls, before: Failing | None, error: BaseException, now_ms: int) -> Failing:
        """Return what fails after another failure; without one before, or long after it, anew."""
        known = before is not None and now_ms - before.last_ms <= FORGOTTEN_MS
        since_ms = before.since_ms if before is not None and known else now_ms
        return cls(since_ms, now_ms, f"{type(error).__name__}: {error}")

    def lasts(self, now_ms: int) -> bool:
        """Tell whether it does not end."""
        return self.last_ms - self.since_ms >= LASTING_MS and now_ms - self.last_ms <= FORGOTTEN_MS

    def text(self, now_ms: int) -> str:
        """Say for how long it has failed, and why."""
        return f"for {(now_ms - self.since_ms) / 1000:.1f} s: {self.error}"


class Failures:
    """The requests that fail, by their API and broker. Writer: the network thread."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, int], Failing] = {}
        #: When requests failed last that succeed again.
        self._ended_ms: dict[tuple[str, int], int] = {}

    def failed(self, api: str, node_id: int, error: BaseException, now_ms: int) -> bool:
        """Note that a request failed, or a part of it.

        Returns:
            Whether one failed in the last minute, too, even if others succeeded in between.
        """
        key = api, node_id
        before = self._found.get(key)
        last_ms = self._ended_ms.get(key) if before is None else before.last_ms
        self._found[key] = Failing.again(before, error, now_ms)
        return last_ms is not None and now_ms - last_ms <= FORGOTTEN_MS

    def succeeded(self, api: str, node_id: int) -> None:
        """Note that all of a request succeeded."""
        if self._found:
            ended = self._found.pop((api, node_id), None)
            if ended is not None:
                self._ended_ms[api, node_id] = ended.last_ms

    def forget(self) -> None:
        """Note that nothing needs the requests any more."""
        for api, node_id in tuple(self._found):
            self.succeeded(api, node_id)

    def lasting(self, now_ms: int) -> Iterator[FailingRequest]:
        """Return the requests whose failures do not end."""
        found = tuple(self._found.items())  # the other thread adds to them
        for (api, node_id), each in sorted(found, key=lambda item: item[0]):
            if each.lasts(now_ms):
                asked = "the brokers" if node_id < 0 else f"broker {node_id}"
                yield FailingRequest(api, node_id, f"{asked}: {api} has failed {each.text(now_ms)}")
