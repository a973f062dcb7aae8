"""Passes each kind of value for every option to kafka-python's consumer and to ours.

Their consumer is created without a network: `trials()` simulates the response of a broker of
Kafka 4.3.
"""

from __future__ import annotations

import gc
import logging
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Final
from unittest.mock import patch

from kafka import KafkaConsumer
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.protocol.broker_version_data import BrokerVersionData

from tandem_kafka.config import Config
from tests.unit.config_differences import OURS, THEIRS, Difference
from tests.unit.config_values import SURROUNDINGS, values_of

__all__ = ["Trial", "reasons", "tables", "trials"]


@dataclass(frozen=True)
class Trial:
    """The outcome of a value of an option, both as in the table.

    Attributes:
        theirs: The error of kafka-python's constructor; None if it accepted the value.
        ours: The error of our options, likewise.
    """

    option: str
    value: str
    theirs: Exception | None
    ours: Exception | None

    @property
    def kind(self) -> tuple[bool, bool]:
        """Whether kafka-python took it, and whether we did."""
        return self.theirs is None, self.ours is None


@cache
def trials() -> tuple[Trial, ...]:
    """Try them all; an option of TLS or SASL where it is of use."""
    with _offline():
        return tuple(
            _try(option, value, make)
            for option in KafkaConsumer.DEFAULT_CONFIG
            for value, make in values_of(option).items()
        )


def around(option: str) -> dict[str, Any]:
    """Return the options that one is tried with."""
    found: dict[str, Any] = {"group_id": "group"}
    for start, others in SURROUNDINGS.items():
        if option.startswith(start):
            found.update(others)
    return found


def _try(option: str, value: str, make: Callable[[], Any]) -> Trial:
    others = around(option)
    return Trial(
        option,
        value,
        _raised(_make_theirs, {**others, option: make()}),
        _raised(Config.from_options, {**others, option: make()}),
    )


def _raised(take: Callable[[Any], object], options: Mapping[str, Any]) -> Exception | None:
    try:
        take(options)
    except Exception as error:  # noqa: BLE001 - any error is the outcome
        error.__cause__ = error.__context__ = None  # their frames would keep sockets
        return error.with_traceback(None)
    return None


def _make_theirs(options: Mapping[str, Any]) -> None:
    consumer = KafkaConsumer(**options)
    consumer._closed = True
    consumer._client.close()


@contextmanager
def _offline() -> Iterator[None]:
    """Create kafka-python's consumers without threads, with a simulated broker."""

    def response(manager: Any, *_timeouts: object) -> None:
        manager.broker_version_data = BrokerVersionData((4, 3))

    before = logging.root.manager.disable
    logging.disable()
    try:
        with (
            warnings.catch_warnings(),
            patch.object(KafkaConnectionManager, "bootstrap", response),
            patch.object(NetworkSelector, "start", lambda _self: None),
        ):
            warnings.simplefilter("ignore")
            yield
            gc.collect()  # sockets that their failed constructor left open
    finally:
        logging.disable(before)


def reasons(trial: Trial, known: Iterable[Difference]) -> list[int]:
    """Return which of the known differences have one, counted from 1."""
    return [
        number
        for number, each in enumerate(known, 1)
        if trial.option in each.options and trial.value in each.values
    ]


#: A row names so many values at most; they are examples of their kind.
_MOST_VALUES: Final = 6


def tables() -> str:
    """Return the differences as they are in docs/reference/options-parity.md."""
    lines: list[str] = []
    for title, kind, known in (
        ("What only kafka-python accepts", (True, False), THEIRS),
        ("What only tandem-kafka accepts", (False, True), OURS),
    ):
        lines += [f"## {title}", "", "| options | values | reason |", "|---|---|---|"]
        found = [trial for trial in trials() if trial.kind == kind]
        for number, each in enumerate(known, 1):
            mine = [trial for trial in found if reasons(trial, known)[:1] == [number]]
            options = dict.fromkeys(f"`{trial.option}`" for trial in mine)
            values = list(dict.fromkeys(trial.value for trial in mine))
            more = ", ..." if len(values) > _MOST_VALUES else ""
            examples = ", ".join(values[:_MOST_VALUES]) + more
            lines.append(f"| {', '.join(options)} | {examples} | {each.reason} |")
        lines.append("")
    return "\n".join(lines)
