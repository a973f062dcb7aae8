"""The definition of an option: a dataclass field with its check and its description."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field
from typing import Any, Final

from tandem_kafka.config.checks import Check
from tandem_kafka.config.shown import show
from tandem_kafka.dataclass import dataclass, field
from tandem_kafka.errors import InvalidOptionError
from tandem_kafka.logs import client_logger

log = client_logger(__name__)

_KEY: Final = "option"


@dataclass(frozen=True)
class Option:
    """Properties of an option besides its name, type and default.

    Attributes:
        check: The allowed values.
        doc: The description for the documentation, with the unit if there is one.
        secret: Its value is never shown.
        shown_default: The default in the documentation, if its repr is not readable.
        since: The version that introduced it, if it was not the first.
    """

    check: Check
    doc: str
    secret: bool = False
    shown_default: str | None = None
    since: str | None = None


def option(
    default: object,
    check: Check,
    doc: str,
    *,
    secret: bool = False,
    shown_default: str | None = None,
    since: str | None = None,
) -> Any:
    """Return the dataclass field of an option."""
    return field(default=default, metadata={_KEY: Option(check, doc, secret, shown_default, since)})


def option_of(spec: Field[Any]) -> Option:
    """Return the properties of an option, given its field."""
    known: Option = spec.metadata[_KEY]
    return known


def parse_option(spec: Field[Any], options: Mapping[str, Any]) -> object:
    """Return the value of an option to keep.

    Raises:
        InvalidOptionError: The value is not allowed.
    """
    known = option_of(spec)
    try:
        kept = known.check.parse(options[spec.name])
    except (TypeError, ValueError) as error:
        problem = str(error) or f"must be {known.check.allowed}"
    else:
        least: Any = known.check.least
        if least is not None and kept == least != options[spec.name]:
            log.warning("%s=%r is below the minimum; using %s", spec.name, options[spec.name], kept)
        return kept
    # Behind the handler: the frames of the other error have the value.
    shown = show(options[spec.name], secret=known.secret)
    raise InvalidOptionError(f"{spec.name}={shown}: {problem}")
