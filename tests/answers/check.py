"""One answer for two minutes, and what a consumer must do meanwhile and afterwards."""

from __future__ import annotations

import logging
import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from kafka.errors import UnknownMemberIdError

from tandem_kafka.errors import KafkaError, for_code
from tandem_kafka.request_managers.reactions import COMMIT, Reaction, reaction_to
from tandem_kafka.wire.framing import decode_message, encode_message
from tandem_kafka_testing.cluster.call import Call
from tandem_kafka_testing.cluster.scripts import Scripts
from tests.answers.consumers import GROUP, Asking
from tests.answers.table import ROWS, Answer, Row, answers_of

__all__ = ["Case", "Fault", "broken_promises", "cases"]

LASTS_MS: Final = 120_000
#: A poll() that has nothing to return comes back after this time.
_POLL_MS: Final = 1_000
_LOGGER: Final = logging.getLogger("tandem_kafka")

# What is bounded, and where the figure comes from. With the default options, a retry waits for
# 100 ms (retry_backoff_ms) at first and for up to 1,000 ms (retry_backoff_max_ms), each drawn from
# 20% around it; a partition is fetched again after 100 ms.

#: Each of both brokers is asked, at most every 80 ms.
REQUESTS_PER_SECOND: Final = 25
#: Ordinary requests of a consumer that reads a record a second, and some that a failure causes:
#: two for the coordinator, one for metadata.
OTHER_REQUESTS_PER_SECOND: Final = 40
#: The outcome of each request wakes the thread, and the application does while it polls.
WAKEUPS_PER_SECOND: Final = 150
#: An application that catches an error and polls again hears of it once per retry.
ERRORS_PER_SECOND: Final = 12.5
#: INFO lines of a member that joins again and again, once per second at most, and each has three.
LINES_PER_SECOND: Final = 4
#: `RaisedErrors` writes ten in a minute; an outage of each broker is said once.
WARNINGS_PER_MINUTE: Final = 20
#: Nothing moves if no record has been returned for so long.
STILL_MS: Final = 30_000
#: One backoff may have begun just before the answer ended; all is well a second after it.
WELL_AFTER_MS: Final = 1_200 + 1_000


@dataclass(frozen=True, slots=True)
class Case:
    """An answer to the requests of one kind of consumer."""

    row: Row
    asker: str
    answer: Answer
    later: bool

    @property
    def id(self) -> str:
        """The name of the case."""
        when = " later" if self.later else ""
        return f"{self.row.name} {self.answer.name} {self.asker}{when}"


def cases(*, every: bool, once: bool = False) -> Iterator[Case]:
    """Return all cases, or those that the gate runs.

    Those of the gate, and of `once`, have each answer once: the kinds of consumers take turns, and
    every second answer to a row that is `later` begins once the consumer reads.
    """
    for row in ROWS:
        for number, answer in enumerate(answers_of(row, every=every)):
            if once or not every:
                asker = row.askers[number % len(row.askers)]
                yield Case(row, asker, answer, later=row.later and number % 2 == 1)
                continue
            for asker in row.askers:
                yield Case(row, asker, answer, later=False)
                yield Case(row, asker, answer, later=True)


# --- the broker ----------------------------------------------------------------------------------


class Fault:
    """Answers all requests of a kind, until it ends.

    Attributes:
        count: How many it has answered.
    """

    def __init__(self, case: Case, asking: Asking) -> None:
        self._case, self._cluster = case, asking.simulation.cluster
        self.count = 0
        self._scripts = self._cluster._scripts
        self._scripts.take = self._take  # type: ignore[method-assign]

    def end(self) -> None:
        del self._scripts.take

    def _take(self, api_key: int) -> Callable[[Call], Any] | None:
        if api_key == self._case.row.request.API_KEY:
            return self._answer
        return Scripts.take(self._scripts, api_key)

    def _answer(self, call: Call) -> Any:
        self.count += 1
        row, answer = self._case.row, self._case.answer
        if row.name == "ShareFetch" and answer.name.startswith("responses.partitions.error_code"):
            return answer.change(self._nothing_locked(call))
        self._forget_member(call, answer)
        if answer.whole and row.changes:
            return answer.change(row.response())
        deliver = call.deliver
        call.deliver = lambda late, response: deliver(late, self._changed(call, response))
        response = call.default()
        return response if response is None else self._changed(call, response)

    def _changed(self, call: Call, response: Any) -> Any:
        """Change a response, in a copy: the broker may keep it."""
        body = encode_message(response, call.version)
        copied = decode_message(self._case.row.response, call.version, memoryview(body))
        return self._case.answer.change(copied)

    def _nothing_locked(self, call: Call) -> Any:
        """Return a response that names each partition of a broker, and locks nothing."""
        response = self._case.row.response
        topic = response.ShareFetchableTopicResponse
        part = topic.PartitionData
        parts = [
            part(partition_index=each.number, current_leader=part.LeaderIdAndEpoch())
            for each in self._cluster.all_partitions()
            if each.leader == call.broker.node_id
        ]
        topic_id = self._cluster.topics["orders"].topic_id
        return response(responses=[topic(topic_id=topic_id, partitions=parts)])

    def _forget_member(self, call: Call, answer: Answer) -> None:
        """A coordinator that says that it does not know a member has none."""
        member_id = getattr(call.request, "member_id", "")
        table, error = self._case.row.table, for_code(answer.code)
        unknown = table is COMMIT and error is UnknownMemberIdError
        if member_id and (unknown or reaction_to(table, error) is Reaction.LOST):
            self._cluster.expel(GROUP, member_id)


# --- measurements --------------------------------------------------------------------------------


class _Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.infos = self.warnings = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.infos += 1
        self.warnings += record.levelno >= logging.WARNING


@contextmanager
def _counting_lines() -> Iterator[_Lines]:
    lines, level = _Lines(), _LOGGER.level
    _LOGGER.addHandler(lines)
    _LOGGER.setLevel(logging.INFO)
    propagate, _LOGGER.propagate = _LOGGER.propagate, False
    try:
        yield lines
    finally:
        _LOGGER.removeHandler(lines)
        _LOGGER.setLevel(level)
        _LOGGER.propagate = propagate


class _Watched:
    """A consumer in a loop that catches errors and polls on.

    Attributes:
        records: How many records it has returned.
        errors: How many errors it has raised.
        moved_ms: When it has returned a record last.
    """

    def __init__(self, asking: Asking) -> None:
        self._asking, self._clock = asking, asking.simulation.clock
        self.records = self.errors = 0
        self.moved_ms = self._clock.now_ms()
        self.last_error: KafkaError | None = None

    async def until(self, deadline_ms: int, done: Callable[[], bool]) -> None:
        """Poll on until something holds or the deadline."""
        while self._clock.now_ms() < deadline_ms and not done():
            try:
                count = await self._asking.poll(_POLL_MS)
            except KafkaError as error:
                self.errors += 1
                self.last_error = error
                self._asking.simulation.sleep(1)
                continue
            if count:
                self.records += count
                self.moved_ms = self._clock.now_ms()


def broken_promises(case: Case) -> dict[str, str]:
    """Run a case; return what was promised and does not hold, by its name, with what was seen."""
    asking = Asking(case.id, case.asker, case.row.needs)
    broken: dict[str, str] = {}
    with _counting_lines() as lines:
        try:
            asking.run(_watch(case, asking, lines, broken))
        except BaseException as error:
            asking.abandon()
            if not isinstance(error, Exception | AssertionError):
                raise
            broken["raised"] = f"{type(error).__name__}: {str(error)[:200]}"
    return broken


async def _watch(case: Case, asking: Asking, lines: _Lines, broken: dict[str, str]) -> None:
    watched = _Watched(asking)
    fault = None if case.later else Fault(case, asking)
    await asking.start()
    if fault is None:
        await watched.until(20_000, lambda: watched.records > 0)
        fault = Fault(case, asking)
    if case.row.needs == "leaving":
        await watched.until(20_000, lambda: watched.records > 0)
        await asking.close()
        _check(broken, "asked", fault.count, 1, least=True)
        return
    may_recover = await _last(case, asking, lines, watched, fault, broken)
    # What is no error may be believed: an empty assignment, or versions until the next connection.
    if may_recover and case.answer.code:
        await _recover(asking, watched, fault, broken)
    await asking.close()


async def _last(
    case: Case,
    asking: Asking,
    lines: _Lines,
    watched: _Watched,
    fault: Fault,
    broken: dict[str, str],
) -> bool:
    """Let the answer last; return False if the consumer has given up for good."""
    clock = asking.simulation.clock
    began, began_ms = _figures(asking, lines, watched, fault), clock.now_ms()
    if case.row.needs == "login":
        asking.cut()

    def figures() -> list[int]:
        now = _figures(asking, lines, watched, fault)
        return [each - then for each, then in zip(now, began, strict=True)]

    limits = {name: limit * _times(case, name) for name, limit in _LIMITS.items()}
    most = [limit * LASTS_MS / 1_000 for limit in limits.values()]

    def exceeded() -> bool:
        """What exceeds the limit of the whole time does not go on."""
        return any(map(operator.gt, figures(), most))

    await watched.until(began_ms + LASTS_MS, exceeded)
    seconds = (clock.now_ms() - began_ms) / 1_000
    for (name, limit), figure in zip(limits.items(), figures(), strict=True):
        _check(broken, name, figure / seconds, limit)
    if case.row.later or not case.later:  # otherwise it may have asked before
        _check(broken, "asked", fault.count, 1, least=True)
    return _judge_health(case, asking, watched, broken)


def _judge_health(case: Case, asking: Asking, watched: _Watched, broken: dict[str, str]) -> bool:
    """Compare what `health()` says with what happens; return False after a final error."""
    clock, health = asking.simulation.clock, asking.consumer.health()
    if asking.consumer._core.engine.group.fatal is not None:
        # Every poll() raises a final error, at once; nothing is asked any more.
        for name in ("errors", "warnings"):
            broken.pop(name, None)
        if health.alive:
            broken["health"] = "alive after a final error"
        return False
    still = clock.now_ms() - watched.moved_ms > STILL_MS
    if still and health.ready and case.answer.code:
        troubles = health.troubles
        broken["health"] = f"ready though nothing moves; troubles {troubles}, {watched.last_error}"
    return True


async def _recover(asking: Asking, watched: _Watched, fault: Fault, broken: dict[str, str]) -> None:
    clock = asking.simulation.clock
    fault.end()
    ended_ms, before = clock.now_ms(), watched.records

    def well() -> bool:
        return watched.records > before and asking.consumer.health().ready

    errors = watched.errors
    await watched.until(ended_ms + 30_000, lambda: well() or watched.errors > errors + 1_000)
    took_ms = clock.now_ms() - ended_ms
    if not well():
        health = asking.consumer.health()
        broken["recovery"] = (
            f"{watched.records - before} records, not ready {health.not_ready}, "
            f"{watched.last_error!r} after 30 s"
        )
    else:
        _check(broken, "recovery", took_ms, WELL_AFTER_MS)


_LIMITS: Final = {
    "requests": REQUESTS_PER_SECOND,
    "all requests": OTHER_REQUESTS_PER_SECOND,
    "wakeups": WAKEUPS_PER_SECOND,
    "errors": ERRORS_PER_SECOND,
    "lines": LINES_PER_SECOND,
    "warnings": WARNINGS_PER_MINUTE / 60,
}

#: A response without an error that has nothing is asked for again after 10 ms (`EMPTY_PAUSE_MS`).
_EMPTY_TIMES: Final = 8


def _times(case: Case, name: str) -> int:
    return 1 if case.answer.code or name in {"errors", "lines", "warnings"} else _EMPTY_TIMES


def _figures(asking: Asking, lines: _Lines, watched: _Watched, fault: Fault) -> tuple[int, ...]:
    received = sum(broker.received for broker in asking.simulation.cluster.brokers.values())
    return (
        fault.count, received, asking.iterations, watched.errors, lines.infos, lines.warnings
    )  # fmt: skip


def _check(
    broken: dict[str, str], name: str, figure: float, limit: float, *, least: bool = False
) -> None:
    if figure < limit if least else figure > limit:
        broken[name] = f"{figure:.1f}, the limit is {limit:.1f}"
