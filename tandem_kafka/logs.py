"""Loggers whose lines name the consumer, in the text and as attributes of the record."""

from __future__ import annotations

import logging
import math
import sys
import traceback
from collections.abc import Hashable, Mapping
from contextvars import ContextVar, Token
from types import MappingProxyType
from typing import Any, Final

from tandem_kafka.foreign_text import SentSecrets

__all__ = [
    "ClientLogger",
    "ClientNames",
    "LinesOf",
    "clean_error",
    "client_logger",
    "login_name",
    "sent_secrets",
]


class ClientNames:
    """The names of one consumer.

    Attributes:
        client_id: The `client_id`, None if it is not known yet.
        group_id: The group, None without one.
        member_id: The member id. Outside of the group it is empty, except that a member of KIP-848
            has it before it joins. Writer: the network thread.
        secrets: What was sent to brokers, and is hidden in the lines. Writer: the network thread.
        login_name: The name of the user, None if brokers find it in another way than by a login.
    """

    __slots__ = ("client_id", "group_id", "login_name", "member_id", "secrets")

    def __init__(
        self, client_id: str | None, group_id: str | None = None, *, login_name: str | None = None
    ) -> None:
        self.client_id = client_id
        self.group_id = group_id
        self.member_id = ""
        self.secrets = SentSecrets()
        self.login_name = login_name

    def fields(self) -> dict[str, Any]:
        """Return the names by their attributes in a log record."""
        return {
            "client_id": self.client_id,
            "group_id": self.group_id,
            "member_id": self.member_id,
        }


class LinesOf:
    """A ``with`` block, entered by one thread at a time, whose lines name a consumer."""

    __slots__ = ("_names", "_tokens")

    def __init__(self, names: ClientNames) -> None:
        self._names = names
        self._tokens: list[Token[ClientNames]] = []

    def __enter__(self) -> None:
        self._tokens.append(_current.set(self._names))

    def __exit__(self, *_: object) -> None:
        _current.reset(self._tokens.pop())


_current: Final[ContextVar[ClientNames]] = ContextVar("tandem_kafka_client")
_NOBODY: Final = ClientNames(None)


class ClientLogger(logging.LoggerAdapter[logging.Logger]):
    """Logs lines that begin with ``[client_id]``.

    The keyword `client` names the consumer. It is not needed inside of `LinesOf`, as on the network
    thread. The items of `fields` become attributes of the record.
    """

    def log(  # type: ignore[override] # its other keywords are not used
        self,
        level: int,
        msg: str,
        *args: object,
        client: ClientNames | None = None,
        exc_info: Any = None,
        stacklevel: int = 1,
        fields: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
        """Log a line if the level is enabled."""
        if not self.isEnabledFor(level):
            return
        names = client or _current.get(_NOBODY)
        if names.client_id is not None:
            msg, args = f"[%s] {msg}", (names.client_id, *args)
        shown = names.secrets.line
        extra = {
            name: shown(each) if isinstance(each, str) else each
            for name, each in (*names.fields().items(), *fields.items())
        }
        msg, args, exc_info = _clean(msg, args, exc_info, names.secrets)
        # One more level: this function is not the caller.
        stacklevel += 1
        try:
            self.logger.log(
                level, msg, *args, exc_info=exc_info, stacklevel=stacklevel, extra=extra
            )
        except KeyError:  # the application's own log records have attributes of these names
            self.logger.log(level, msg, *args, exc_info=exc_info, stacklevel=stacklevel)


def _clean(
    msg: str, args: tuple[object, ...], exc_info: Any, secrets: SentSecrets
) -> tuple[str, tuple[object, ...], Any]:
    """Return a line as it is, or else its text without secrets and control characters.

    Invariant: one line of ours is one line, whatever the names and the errors of others are.
    """
    try:
        line = msg % args if args else msg
    except Exception:  # noqa: BLE001 - handlers report it, as for any logger
        return msg, args, exc_info
    shown = secrets.line(line)
    if shown != line:
        msg, args = "%s", (shown,)
    error = sys.exc_info()[1] if exc_info is True else exc_info
    if isinstance(error, BaseException):
        trace = "".join(traceback.format_exception(error)).rstrip()
        clean = secrets.line(trace, keep="\n\t")
        if clean != trace:
            return "%s\n%s", (shown, clean), None
    return msg, args, exc_info


def sent_secrets() -> SentSecrets:
    """Return the secrets of the consumer that `LinesOf` names; those of nobody are new."""
    names = _current.get(_NOBODY)
    return SentSecrets() if names is _NOBODY else names.secrets


def login_name() -> str | None:
    """Return the name with which the consumer that `LinesOf` names logs in, None if unknown."""
    return _current.get(_NOBODY).login_name


def clean_error(error: BaseException) -> None:
    """Clean an error that leaves the network thread: names in it may be from outside."""
    _current.get(_NOBODY).secrets.clean(error)


def client_logger(name: str) -> ClientLogger:
    """Return the logger of a module."""
    return ClientLogger(logging.getLogger(name))


#: How often the same line is logged at most.
INTERVAL_MS: Final = 60_000


class RecentLines:
    """The lines that were logged in the last interval, in the order of their times.

    One thread uses it.
    """

    __slots__ = ("_logged_ms", "_most")

    def __init__(self, most: float = math.inf) -> None:
        """Allow `most` different lines in an interval."""
        self._most = most
        self._logged_ms: dict[Hashable, int] = {}

    def take(self, line: Hashable, now_ms: int) -> bool:
        """Tell whether a line may be logged now, which counts as logged then."""
        logged_ms = self._logged_ms
        while logged_ms and now_ms - logged_ms[oldest := next(iter(logged_ms))] >= INTERVAL_MS:
            del logged_ms[oldest]
        if line in logged_ms or len(logged_ms) >= self._most:
            return False
        logged_ms[line] = now_ms
        return True
