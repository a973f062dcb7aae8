"""The schema registry: a worker process has one client per configuration, with schemas by id.

An unreachable registry is an error in every mode. An unknown schema id is a bad value only if the
registry itself responds that it has no such schema.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tandem_kafka.errors import InvalidArgumentError, KafkaError
from tandem_kafka.runtime import MonotonicClock
from tandem_kafka.spark.decoding.framing import DecodingError

#: How long an id that the registry does not know is not requested again.
_UNKNOWN_MS: Final = 30_000
#: The registry's own error code. A 404 without it means a different server or path.
_NO_SUCH_SCHEMA: Final = 40403
#: Advice by HTTP status.
_ADVICE: Final = {
    401: "set basic.auth.user.info in registry to a user:password that the registry accepts",
    403: "grant the user of basic.auth.user.info the right to read schemas",
    404: "check the path of the url in registry",
}
_UNREACHED: Final = "check the url in registry, and that it can be reached from the workers"
#: Characters of a response to show: a proxy may send an HTML page.
_MAX_SHOWN: Final = 200
_DEFAULT_ADVICE: Final = "see the registry's log"


class RegistryError(KafkaError):
    """A request to the schema registry failed, or its response is not usable."""


@dataclass(frozen=True, slots=True)
class Registry:
    """The configuration of the registry client; sent to the workers, never shown."""

    settings: tuple[tuple[str, Any], ...] = field(repr=False)

    def __hash__(self) -> int:
        """Return a hash, even if a setting is not hashable."""
        return hash(repr(self.settings))

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Registry:
        """Check the configuration of confluent-kafka's registry client.

        Raises:
            InvalidArgumentError: The url is missing, a name is unknown, or a value has the wrong
                type.
        """
        if not isinstance(given, Mapping):
            kind = type(given).__name__
            raise InvalidArgumentError(f'registry must be like {{"url": "..."}}, got: {kind}')
        if not isinstance(given.get("url"), str) or not given["url"].strip():
            names = ", ".join(sorted(map(str, given))) or "nothing"
            raise InvalidArgumentError(f"registry must have a url (a string), got: {names}")
        found = cls(tuple(sorted(given.items())))
        found.connect().close()
        return found

    def connect(self) -> Any:
        """Return a new client, which has not connected yet.

        Raises:
            InvalidArgumentError: The client rejects its configuration, or is not installed.
        """
        try:
            from confluent_kafka.schema_registry import (  # noqa: PLC0415 - an extra
                SchemaRegistryClient,
            )
        except ImportError as error:
            raise InvalidArgumentError(
                "a schema registry needs more packages: run pip install 'tandem-kafka[spark-avro]' "
                f"or 'tandem-kafka[spark-protobuf]' ({error})"
            ) from None
        try:
            return SchemaRegistryClient(dict(self.settings))
        except (ValueError, TypeError, OSError) as error:
            raise InvalidArgumentError(f"registry: {error}") from None

    def schemas(self) -> Schemas:
        """Return the schemas that this process has fetched from the registry."""
        key = (os.getpid(), self)
        schemas = _schemas.get(key)
        if schemas is None:
            schemas = _schemas[key] = Schemas(self.connect())
        return schemas


@dataclass(slots=True)
class Schemas:
    """Schemas by id. The client caches the existing ones, this class the unknown ids."""

    _client: Any
    _unknown_until_ms: dict[int, int] = field(default_factory=dict)

    def get(self, number: int, kind: str, *, form: str | None = None) -> Any:
        """Return a schema with `schema_str` and `references`.

        Raises:
            DecodingError: The schema does not exist, or has a different type.
            RegistryError: The request to the registry failed.
        """
        now_ms = MonotonicClock().now_ms()
        if self._unknown_until_ms.get(number, now_ms) > now_ms:
            raise DecodingError("the registry has no such schema")
        found = self._fetch(number, form, now_ms)
        found_kind = found.schema_type or "AVRO"
        if found_kind != kind:
            raise DecodingError(f"it is a schema of {found_kind}, not of {kind}")
        return found

    def referenced(self, subject: str, version: int) -> Any:
        """Return a schema that another one references.

        Raises:
            RegistryError: The request to the registry failed.
        """
        try:
            return self._client.get_version(subject, version, True).schema
        except Exception as error:  # noqa: BLE001 - see _fetch
            raise RegistryError(
                f"the request for version {version} of {subject} failed: {_described(error)}"
            ) from None

    def _fetch(self, number: int, form: str | None, now_ms: int) -> Any:
        try:
            return self._client.get_schema(number, fmt=form)
        except Exception as error:  # noqa: BLE001 - errors of the client's HTTP library
            if getattr(error, "error_code", None) == _NO_SUCH_SCHEMA:
                self._unknown_until_ms[number] = now_ms + _UNKNOWN_MS
                raise DecodingError("the registry has no such schema") from None
            # Not chained: the library's message may contain the password.
            message = f"the request for schema id {number} failed: {_described(error)}"
            raise RegistryError(message) from None


def _described(error: Exception) -> str:
    """Return a description of the error, with advice."""
    status = getattr(error, "http_status_code", None)
    if status is None:
        return f"{type(error).__name__}; {_UNREACHED}"
    message = " ".join(str(getattr(error, "error_message", "")).split())[:_MAX_SHOWN]
    return f"HTTP {status}, {message}; {_ADVICE.get(status, _DEFAULT_ADVICE)}"


#: Schemas by process id and registry.
_schemas: dict[Any, Schemas] = {}
