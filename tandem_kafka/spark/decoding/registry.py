"""The schema registry: one client of a worker process for each configuration, schemas by id.

A registry that cannot be reached is an error in every mode. Bytes are bad only if the registry
responds that it has no such schema.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tandem_kafka.errors import InvalidArgumentError, KafkaError
from tandem_kafka.runtime import MonotonicClock
from tandem_kafka.spark.decoding.framing import DecodingError

__all__ = ["Registry", "RegistryError", "Schemas"]

#: So long an id that the registry does not know is not asked for again.
_UNKNOWN_MS: Final = 30_000
#: The registry's own code. A 404 without it comes from another server, or for another path.
_NO_SUCH_SCHEMA: Final = 40403
#: What to do, by HTTP status.
_ADVICE: Final = {
    401: "set basic.auth.user.info in registry to a user:password that the registry accepts",
    403: "grant the user of basic.auth.user.info the right to read schemas",
    404: "check the path of the url in registry",
}
_UNREACHED: Final = "check the url in registry, and that it can be reached from the workers"
#: Characters: a proxy may answer with a page of HTML.
_LONGEST_ANSWER: Final = 200
_OTHERWISE: Final = "see the registry's log"


class RegistryError(KafkaError):
    """The schema registry could not be asked, or its answer makes no sense."""


@dataclass(frozen=True, slots=True)
class Registry:
    """How the registry is reached; travels to the workers, and shows nothing of it."""

    settings: tuple[tuple[str, Any], ...] = field(repr=False)

    def __hash__(self) -> int:
        """Return a hash, although a setting may have none."""
        return hash(repr(self.settings))

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Registry:
        """Check the configuration of confluent-kafka's registry client.

        Raises:
            InvalidArgumentError: It has no url, an unknown name, or a value of the wrong type.
        """
        if not isinstance(given, Mapping):
            kind = type(given).__name__
            raise InvalidArgumentError(f'registry must be like {{"url": "..."}}, got a {kind}')
        if not isinstance(given.get("url"), str) or not given["url"].strip():
            names = ", ".join(sorted(map(str, given))) or "nothing"
            raise InvalidArgumentError(f"registry must have a url, a text; there is {names}")
        found = cls(tuple(sorted(given.items())))
        found.connect().close()
        return found

    def connect(self) -> Any:
        """Return a new client; it talks to nobody yet.

        Raises:
            InvalidArgumentError: It refuses its configuration, or is not installed.
        """
        try:
            from confluent_kafka.schema_registry import (  # noqa: PLC0415 - an extra
                SchemaRegistryClient,
            )
        except ImportError as error:
            raise InvalidArgumentError(
                "a schema registry needs pip install tandem-kafka[spark-avro] or "
                f"[spark-protobuf]: {error}"
            ) from None
        try:
            return SchemaRegistryClient(dict(self.settings))
        except (ValueError, TypeError, OSError) as error:
            raise InvalidArgumentError(f"registry: {error}") from None

    def schemas(self) -> Schemas:
        """Return what this process knows of it."""
        key = (os.getpid(), self)
        known = _known.get(key)
        if known is None:
            known = _known[key] = Schemas(self.connect())
        return known


@dataclass(slots=True)
class Schemas:
    """Schemas by id; the client keeps those that there are."""

    _client: Any
    _unknown_until_ms: dict[int, int] = field(default_factory=dict)

    def get(self, number: int, kind: str, *, form: str | None = None) -> Any:
        """Return a schema with `schema_str` and `references`.

        Raises:
            DecodingError: There is none, or of another kind.
            RegistryError: The registry could not be asked.
        """
        now_ms = MonotonicClock().now_ms()
        if self._unknown_until_ms.get(number, now_ms) > now_ms:
            raise DecodingError("the registry has no such schema")
        found = self._ask(number, form, now_ms)
        its = found.schema_type or "AVRO"
        if its != kind:
            raise DecodingError(f"it is a schema of {its}, not of {kind}")
        return found

    def referenced(self, subject: str, version: int) -> Any:
        """Return a schema that another one refers to.

        Raises:
            RegistryError: It could not be had.
        """
        try:
            return self._client.get_version(subject, version, True).schema
        except Exception as error:  # noqa: BLE001 - see _ask
            raise RegistryError(
                f"version {version} of {subject} cannot be had: {_told(error)}"
            ) from None

    def _ask(self, number: int, form: str | None, now_ms: int) -> Any:
        try:
            return self._client.get_schema(number, fmt=form)
        except Exception as error:  # noqa: BLE001 - those of an HTTP library of its own choice
            if getattr(error, "error_code", None) == _NO_SUCH_SCHEMA:
                self._unknown_until_ms[number] = now_ms + _UNKNOWN_MS
                raise DecodingError("the registry has no such schema") from None
            # Not chained: what the library says of a connection may have the password in it.
            message = f"the registry could not be asked for schema id {number}: {_told(error)}"
            raise RegistryError(message) from None


def _told(error: Exception) -> str:
    """Return what happened, and what to do."""
    status = getattr(error, "http_status_code", None)
    if status is None:
        return f"{type(error).__name__}; {_UNREACHED}"
    said = " ".join(str(getattr(error, "error_message", "")).split())[:_LONGEST_ANSWER]
    return f"HTTP {status}, {said}; {_ADVICE.get(status, _OTHERWISE)}"


#: Of this process, given in the key.
_known: dict[Any, Schemas] = {}
