"""Secrets and control characters that come back: each text of each response, and what is printed.

The fields are those of the message classes, so a new one is tried by itself. Each response to a
request has the text for a while, with each class of error code beside it, and everything that is
printed of the consumer must have neither the secret nor a character that acts on a terminal.
"""

from __future__ import annotations

import base64
import json
import logging
import re
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from typing import Any, Final, cast
from urllib.parse import quote

from tandem_kafka import TopicPartition
from tandem_kafka.errors import KafkaError
from tandem_kafka.wire.messages import SaslHandshakeRequest, SaslHandshakeResponse
from tests.answers.check import Case, Fault
from tests.answers.consumers import Asking
from tests.answers.table import Answer, Row, codes_of, paths, reached

__all__ = ["Echo", "echoes", "fields", "printed"]

#: A broker may be called like that, and a topic.
SECRET: Final = "hunter2-Passw0rd"
_PAIR: Final = base64.b64encode(f"\0ada\0{SECRET}".encode()).decode()
_FORGED: Final = "2026-01-01 ERROR a line that nobody wrote"
#: What acts on a terminal or a viewer of logs: CR, LF, ESC, CSI, NEL, DEL, an override of the
#: direction, and a line separator.
_CONTROLS: Final = "\r\n\x1b\x9b\x85\x7f\u202e\u2028"
_TEXT: Final = (
    f"{SECRET} {quote(SECRET + '/', safe='')} {_PAIR} {base64.b64encode(SECRET.encode()).decode()}"
    f"\r\n{_FORGED}\x1b[31m\x9b2J\x85\x7f\u202e\u2028{'x' * 5_000}"
)
_TEXTS: Final = {"text": _TEXT, "name": SECRET}
_SHOWN: Final = re.compile(
    rf"{re.escape(SECRET)}|{base64.b64encode(SECRET.encode()).decode()[:12]}|{_PAIR[:20]}"
    rf"|\n{_FORGED}|[{_CONTROLS.replace(chr(10), '')}]|x{{1000}}",
    re.IGNORECASE,
)
_ASKERS: Final = ("classic", "consumer", "share")
_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER")
#: What fails is not tried often, as each attempt takes time.
_SELDOM: Final = {
    "default_api_timeout_ms": 300,
    "reconnect_backoff_ms": 500,
    "reconnect_backoff_max_ms": 5_000,
    "retry_backoff_ms": 500,
    "retry_backoff_max_ms": 5_000,
}
_LOGIN_APIS: Final = ("SaslHandshake", "SaslAuthenticate")
#: The last release of brokers that send what later ones do not.
_OLD: Final = "2.8"
#: `health()` tells of a failure that lasts so long.
_LASTING_MS: Final = 10_100


@dataclass(frozen=True, slots=True)
class Echo:
    """A field, what is in it, and who asks."""

    row: Row
    path: tuple[str, ...]
    text: str
    code: int
    asker: str
    mechanism: str = "PLAIN"

    @property
    def accepted(self) -> bool:
        """Whether the brokers, which know nothing of tokens, must be made to accept them."""
        return self.mechanism == "OAUTHBEARER" and self.row.name == "SaslAuthenticate"

    @property
    def field(self) -> str:
        """The name of the field."""
        return f"{self.row.name}.{'.'.join(self.path)}"


def fields(row: Row) -> list[tuple[str, ...]]:
    """Return the fields of a response that are texts or bytes."""
    return list(paths(row.response.fields, lambda _, field: field.type_str in _KINDS))


_KINDS: Final = {"string", "bytes", "[]string", "[]bytes"}


def echoes(row: Row, *, every: bool) -> Iterator[Echo]:
    """Return the cases of a response: all, or those of the gate, for which askers take turns.

    In the gate, only texts for people and names of topics have error codes beside them.
    """
    askers = [each for each in _ASKERS if each in row.askers]
    mechanisms = _MECHANISMS if row.name in _LOGIN_APIS else _MECHANISMS[:1]
    for turn, path in enumerate(fields(row)):
        chosen = askers if every else [askers[turn % len(askers)]]
        # Kafka 2.8 has no other group protocol.
        for asker in ["classic"] if _is_old(row, path) else chosen:
            for mechanism, text in product(mechanisms, _TEXTS):
                yield Echo(row, path, text, 0, asker, mechanism)
        if _codes(row, path) and (every or path[-1].endswith(("message", "name"))):
            some = list(product(askers, mechanisms, _TEXTS))
            for number, code in enumerate(codes_of(row.table)):
                asker, mechanism, text = some[(turn + number) % len(some)]
                yield Echo(row, path, text, code, asker, mechanism)


def _codes(row: Row, path: Sequence[str]) -> list[str]:
    """Return the fields of error codes beside a field."""
    described = row.response.fields
    for name in path[:-1]:
        described = described[name].fields
    return [name for name in described if name.endswith("error_code")]


def _poisoned(echo: Echo, sent: list[str]) -> Callable[[Any], Any]:
    def change(message: Any) -> Any:
        found = list(reached(message, echo.path, make=row.response.fields))
        for each in found:
            for name in _codes(row, echo.path) if echo.code or echo.accepted else ():
                setattr(each, name, echo.code)
            setattr(each, echo.path[-1], value)
        if found:
            sent.append(echo.field)
        return message

    row = echo.row
    field = row.response.fields
    for name in echo.path[:-1]:
        field = field[name].fields
    text: Any = _TEXTS[echo.text]
    value = text.encode() if "bytes" in field[echo.path[-1]].type_str else text
    if field[echo.path[-1]].type_str.startswith("[]"):
        value = [value]
    return change


class _Asked(Asking):
    """A consumer that has logged in with the secret."""

    def __init__(self, echo: Echo) -> None:
        release = _OLD if _is_old(echo.row, echo.path) and echo.asker == "classic" else None
        super().__init__(echo.field, echo.asker, echo.row.needs, release)
        self._echo = echo
        cluster = self.simulation.cluster
        cluster.users["ada"] = SECRET
        if echo.accepted:
            accepts = SaslHandshakeResponse(error_code=0, mechanisms=[echo.mechanism])
            cluster.script(SaslHandshakeRequest, *[accepts] * 1_000)

    def _options(self) -> dict[str, Any]:
        login: dict[str, Any] = {
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": self._echo.mechanism,
            "sasl_plain_username": "ada",
            "sasl_plain_password": SECRET,
        }
        if self._echo.mechanism == "OAUTHBEARER":
            login["sasl_oauth_token_provider"] = _Provider()
        return {**super()._options(), **login, **_SELDOM}

    def calls(self) -> Iterator[Callable[[], Any]]:
        """Return what an application calls."""
        yield lambda: self.consumer.poll(200)
        yield self.consumer.commit
        if not self.shares:
            tp = TopicPartition("orders", 0)
            yield lambda: self.consumer.committed(tp, metadata=True)
            yield lambda: self.consumer.end_offsets([tp])
            yield lambda: self.consumer.partitions_for_topic("orders")
            yield self.consumer.topics
        yield lambda: self.consumer.poll(200)


class _Provider:
    def token(self) -> str:
        return SECRET


def _is_old(row: Row, path: Sequence[str]) -> bool:
    """Whether the newest version of a response lacks a field."""
    described = row.response.fields
    for name in path:
        field = described[name]
        if field.max_version < row.response.max_version:
            return True
        described = field.fields
    return False


class _Lines(logging.Handler):
    def __init__(self, found: list[str]) -> None:
        super().__init__(logging.DEBUG)
        names = " ".join(f"%({name})s" for name in ("client_id", "group_id", "member_id"))
        defaults = dict.fromkeys(("client_id", "group_id", "member_id"))
        self.setFormatter(logging.Formatter(f"%(name)s %(message)s {names}", defaults=defaults))
        self._found = found

    def emit(self, record: logging.LogRecord) -> None:
        self._found.append("log: " + self.format(record))


@contextmanager
def _logging(found: list[str]) -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in ("tandem_kafka", "kafka")]
    levels = [(each, each.level, each.propagate) for each in loggers]
    lines = _Lines(found)
    for each in loggers:
        each.addHandler(lines)
        each.setLevel(logging.DEBUG)
        each.propagate = False
    try:
        yield
    finally:
        for each, level, propagates in levels:
            each.removeHandler(lines)
            each.setLevel(level)
            each.propagate = propagates


def printed(echo: Echo) -> tuple[bool, list[str]]:
    """Run a case; return whether the field was sent, and what is printed and must not be.

    Raises:
        AssertionError: Nothing at all is printed.
    """
    asked, found, sent = _Asked(echo), [], cast("list[str]", [])
    answer = Answer("", _poisoned(echo, sent), whole=bool(echo.code) and len(echo.path) == 1)
    case = Case(echo.row, echo.asker, answer, later=False)
    with _logging(found):
        asked.run(_use(asked, case, found))
    assert found
    return bool(sent), [each for each in found if _SHOWN.search(each)]


async def _use(asked: _Asked, case: Case, found: list[str]) -> None:
    def call(action: Callable[[], Any]) -> None:
        try:
            action()
        except KafkaError as error:
            found.append("raised: " + "".join(traceback.format_exception(error)))
            asked.simulation.sleep(10)

    def last(pause_ms: int) -> None:
        if case.row.needs == "elections":
            asked.elect()
            asked.simulation.sleep(1_000)
        for each in asked.calls():
            call(each)
        asked.simulation.sleep(pause_ms)
        health = asked.consumer.health()
        found.extend(
            [
                *("health: " + each for each in (*health.troubles, *health.not_ready)),
                *("health: " + each for each in health.not_alive),
                "diagnose: " + asked.consumer.diagnose(),
                "probe: " + json.dumps({"reasons": health.not_ready}),
            ]
        )

    fault = Fault(case, asked)
    await asked.start()
    last(100)
    fault.end()
    last(100)
    fault = Fault(case, asked)
    asked.cut()
    last(_LASTING_MS)
    call(asked.consumer.close)
    fault.end()
