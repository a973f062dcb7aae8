"""Schemas by what a schema registry calls them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any, Final, Literal, Protocol, TypeAlias
from uuid import UUID

from tandem_kafka.errors import InvalidArgumentError, SchemaRegistryError
from tandem_kafka.foreign_text import LOGIN, Secret, SentSecrets
from tandem_kafka.runtime import MonotonicClock, sleep_ms

#: An id that the registry does not have is asked for again after this time.
_ABSENT_MS: Final = 10_000
_FIRST_PAUSE_MS: Final = 100
_LONGEST_PAUSE_MS: Final = 2_000
_CLOCK: Final = MonotonicClock()
#: References from schema to schema are followed so far.
_MAX_DEPTH: Final = 64
#: So many schemas are asked for because one refers to them. Without it, two references in each of
#: 60 levels are more requests than a registry answers in a lifetime.
_MAX_REFERENCES: Final = 1_000

#: Codes of the registry: it has no such subject (40401), version (40402) or schema (40403).
_ABSENT: Final = range(40400, 40500)
#: The code of `SchemaRegistryClient` for an answer that is no JSON, such as the page of a proxy.
_PAGE: Final = -1
_REFUSED: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
#: Other answers below 500 do not change if asked again.
_TRANSIENT: Final = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)


#: What a registry calls a schema: a number, or a GUID of 16 bytes.
SchemaId: TypeAlias = int | bytes


class SchemaRegistry(Protocol):
    """What is used of ``confluent_kafka.schema_registry.SchemaRegistryClient``.

    If headers name schemas, it also needs ``get_schema_by_guid(guid)``, which is like
    `get_schema()` with a GUID such as ``"f81d4fae-7dec-11d0-a765-00a0c91e6bf6"``.

    An error with ``http_status_code`` 404 and an ``error_code`` of 404xx says that there is no such
    subject, version or schema.
    """

    def get_schema(self, schema_id: int, /) -> Any:
        """Return an object with ``schema_str``, and with ``references`` or None.

        Each reference has a subject and a version. ``schema_type`` may be missing for AVRO. For
        Protobuf, the method gets one more argument, ``fmt="serialized"``.
        """

    def get_version(self, subject_name: str, version: int, /, *, deleted: bool) -> Any:
        """Return an object whose attribute ``schema`` is like the result of `get_schema()`.

        With ``deleted=True``, also one that was soft-deleted: records may still refer to it.
        """


class Schemas:
    """The schemas that a registry has told, each with those that it refers to.

    Args:
        registry: The client.
        timeout_ms: How long to ask again, in milliseconds.
        kind: The type of the schemas; others count as if the registry did not have them.

    Raises:
        InvalidArgumentError: The registry is no client.
    """

    def __init__(
        self, registry: SchemaRegistry, timeout_ms: float, kind: Literal["AVRO", "PROTOBUF"]
    ) -> None:
        if not callable(getattr(registry, "get_schema", None)):
            msg = f"registry must have get_schema(id), as SchemaRegistryClient, got {registry!r}"
            raise InvalidArgumentError(msg)
        self._registry = registry
        self._timeout_ms = timeout_ms
        self._kind = kind
        #: The texts by id. A schema comes after those that it refers to.
        self.known: dict[SchemaId, Sequence[str]] = {}
        #: When the registry had no such schema.
        self._absent: dict[SchemaId, int] = {}

    def fetch(self, ids: Iterable[SchemaId]) -> None:
        """Fetch the schemas that are not known yet.

        Raises:
            SchemaRegistryError: The registry did not answer, or refused the request.
            InvalidArgumentError: The client is asynchronous.
        """
        now_ms, is_first = _CLOCK.now_ms(), True
        deadline_ms = now_ms + self._timeout_ms
        self._absent = {each: at for each, at in self._absent.items() if now_ms - at < _ABSENT_MS}
        for schema_id in ids:
            if schema_id in self.known or schema_id in self._absent:
                continue
            ask = _Asking(named(schema_id), self._timeout_ms, deadline_ms, is_first=is_first)
            is_first = False
            schema = ask(partial(self._get, named(schema_id)))
            found: dict[tuple[str, int], str] = {}
            if not self._is_usable(schema) or not self._follow(schema, ask, found):
                self._absent[schema_id] = _CLOCK.now_ms()
                continue
            self.known[schema_id] = [*found.values(), str(schema.schema_str)]

    def _get(self, name: int | str) -> Any:
        form = {"fmt": "serialized"} if self._kind == "PROTOBUF" else {}
        if isinstance(name, int):
            return self._registry.get_schema(name, **form)
        # Older clients lack it.
        by_guid: Callable[..., Any] = getattr(self._registry, "get_schema_by_guid")  # noqa: B009
        return by_guid(name, **form)

    def _is_usable(self, schema: Any) -> bool:
        kind = getattr(schema, "schema_type", None) or "AVRO"
        return schema is not None and kind == self._kind

    def _follow(
        self, schema: Any, ask: _Asking, found: dict[tuple[str, int], str], depth: int = 0
    ) -> bool:
        """Add the schemas that a schema refers to, in the order of their definition.

        Returns:
            False if one of them does not exist, or they are too many.
        """
        # A descriptor has the names of its messages, and those are all that is read.
        for reference in (self._kind == "AVRO" and schema.references) or ():
            place = (reference.subject, reference.version)
            if place in found:
                continue
            if depth == _MAX_DEPTH or ask.count > _MAX_REFERENCES:
                return False
            registered = ask(partial(self._registry.get_version, *place, deleted=True))
            if registered is None:
                return False
            if not self._follow(registered.schema, ask, found, depth + 1):
                return False
            found[place] = str(registered.schema.schema_str)
        return True


def named(schema_id: SchemaId) -> int | str:
    """Return a number as it is, and a GUID as text."""
    return schema_id if isinstance(schema_id, int) else str(UUID(bytes=schema_id))


class _Asking:
    """Asks the registry for what belongs to a schema, again and again until a deadline.

    Attributes:
        count: How many answers there were.
    """

    def __init__(
        self, schema_id: int | str, timeout_ms: float, deadline_ms: float, *, is_first: bool
    ) -> None:
        self._is_first = is_first
        self._schema_id = schema_id
        self._timeout_ms = timeout_ms
        self._deadline_ms = deadline_ms
        self.count = 0

    def __call__(self, call: Callable[[], Any]) -> Any:
        """Return the answer; None if the registry does not have it."""
        pause_ms = _FIRST_PAUSE_MS
        # Invariant: the deadline is one for all answers: each may come just in time.
        if (self.count or not self._is_first) and self._deadline_ms <= _CLOCK.now_ms():
            late = TimeoutError(f"there were {self.count} answers in that time")
            raise self._error(late, None) from None
        while True:
            try:
                answer = call()
                break
            except Exception as error:
                status = getattr(error, "http_status_code", None)
                if _is_absent(error, status):
                    return None
                left_ms = self._deadline_ms - _CLOCK.now_ms()
                if _is_final(error, status) or left_ms <= 0:
                    raise self._error(error, status) from error
                sleep_ms(min(pause_ms, left_ms))
                pause_ms = min(2 * pause_ms, _LONGEST_PAUSE_MS)
        if inspect.iscoroutine(answer):
            answer.close()
            msg = "registry must be a client whose methods block, such as SchemaRegistryClient"
            raise InvalidArgumentError(msg)
        self.count += 1
        return answer

    def _error(self, error: Exception, status: int | None) -> SchemaRegistryError:
        # An address may contain a password.
        text = SentSecrets().readable(Secret(LOGIN.sub("//", str(error))))
        told, final = f"{type(error).__name__}: {text}", _is_final(error, status)
        if getattr(error, "error_code", None) == _PAGE:
            told = f"HTTP {status}"
        guids = ", and that it and its client find schemas by GUID"
        if status in _REFUSED:
            msg = (
                f"the schema registry refuses to return schema {self._schema_id} ({told}); give "
                f"its client a login that may read schemas; the next attempt asks again"
            )
        elif final:
            msg = (
                f"the schema registry did not return schema {self._schema_id} ({told}); check its "
                f"address{guids if isinstance(self._schema_id, str) else ''}; the next attempt "
                f"asks again"
            )
        else:
            msg = (
                f"the schema registry did not return schema {self._schema_id} within "
                f"{self._timeout_ms:g} ms ({told}); check its address, and that it runs; the next "
                f"attempt asks again"
            )
        return SchemaRegistryError(msg, self._schema_id, retriable=not final)


def _is_absent(error: Exception, status: int | None) -> bool:
    """Whether the registry says that it has no such schema; any server may lack a page."""
    return status == HTTPStatus.NOT_FOUND and getattr(error, "error_code", None) in _ABSENT


def _is_final(error: Exception, status: int | None) -> bool:
    """Whether the same request would fail again."""
    if status is None:
        # A ValueError: an address that is none, or a page in place of an answer.
        return isinstance(error, (TypeError, AttributeError, ValueError))
    return status < HTTPStatus.INTERNAL_SERVER_ERROR and status not in _TRANSIENT
