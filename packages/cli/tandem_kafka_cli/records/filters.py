"""Selects records by their key, value and headers."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click

from tandem_kafka_cli.failures import CommandError

if TYPE_CHECKING:
    from tandem_kafka.types import ConsumerRecord
    from tandem_kafka_cli.records.decoded import Decoded

    Record: TypeAlias = ConsumerRecord[Any, Any]

Pattern: TypeAlias = re.Pattern[bytes]

_FLAGS: Final = (
    click.option("--key", metavar="REGEX", help="Only records whose key matches."),
    click.option("--value", metavar="REGEX", help="Only records whose value matches."),
    click.option(
        "--header", "headers", metavar="NAME[=REGEX]", multiple=True,
        help="Only records with this header.",
    ),
)  # fmt: skip


def compiled(text: str, flag: str, *, ignore_case: bool = False, fixed: bool = False) -> Pattern:
    """Return a pattern for bytes.

    Raises:
        CommandError: The text is not a regular expression.
    """
    encoded = text.encode()
    try:
        return re.compile(
            re.escape(encoded) if fixed else encoded, re.IGNORECASE if ignore_case else 0
        )
    except re.error as error:
        raise CommandError(
            f"{flag} {text!r} is not a regular expression: {error}", usage=True
        ) from None


@dataclass(frozen=True, slots=True)
class Filters:
    """Conditions that must all hold.

    Attributes:
        key: Found in the key.
        value: Found in the value.
        headers: Names of headers, each with a pattern that is found in its value.
        decoded: Decodes records first.
    """

    key: Pattern | None = None
    value: Pattern | None = None
    headers: Sequence[tuple[str, Pattern]] = ()
    decoded: Decoded | None = None

    def __bool__(self) -> bool:
        """Whether there is a condition."""
        return bool(self.key or self.value or self.headers)

    def chosen(self, records: Sequence[Record]) -> Iterable[Record]:
        """Return the records that fulfil all conditions, decoded.

        The first that cannot be decoded raises a `CommandError` behind those before it.
        """
        error: CommandError | None = None
        if self.decoded is not None:
            records, error = self.decoded.records(records)
        kept: Iterable[Record] = records
        if self:
            kept = (each for each in records if self.accept(each.key, each.value, each.headers))
        return kept if error is None else _then(kept, error)

    def accept(
        self, key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]]
    ) -> bool:
        """Whether a record fulfils all conditions."""
        if self.key is not None and not _found(self.key, key):
            return False
        if self.value is not None and not _found(self.value, value):
            return False
        return all(
            any(name == wanted and _found(pattern, content) for name, content in headers)
            for wanted, pattern in self.headers
        )


def _then(records: Iterable[Record], error: CommandError) -> Iterator[Record]:
    yield from records
    raise error


def _found(pattern: Pattern, content: bytes | None) -> bool:
    return content is not None and pattern.search(content) is not None


def filtered(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags of filters; the function gets them as `filters`."""

    @functools.wraps(command)
    def with_filters(
        key: str | None, value: str | None, headers: tuple[str, ...], **given: Any
    ) -> Any:
        filters = Filters(
            None if key is None else compiled(key, "--key"),
            None if value is None else compiled(value, "--value"),
            [_header(text) for text in headers],
        )
        return command(filters=filters, **given)

    for flag in reversed(_FLAGS):
        with_filters = flag(with_filters)
    return with_filters


def _header(text: str) -> tuple[str, Pattern]:
    name, _, pattern = text.partition("=")
    return name, compiled(pattern, f"--header {name}=")
