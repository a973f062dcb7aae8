"""Runs the command `tandem-kafka` in this process."""

from __future__ import annotations

import io
import json
import logging
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from tandem_kafka_cli.__main__ import main
from tandem_kafka_cli.environment import Environment

__all__ = ["Ran", "Run", "runner"]

_LOGGERS = ("tandem_kafka", "kafka")


@dataclass
class Ran:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The printed JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]


Run = Callable[..., Ran]


@contextmanager
def runner(environment: Environment, capsys: pytest.CaptureFixture[str]) -> Iterator[Run]:
    """A function that runs a command; the keyword `given` is its stdin, others are environment."""

    def run(*arguments: str, given: str = "", **replaced: Any) -> Ran:
        capsys.readouterr()
        stdin, sys.stdin = sys.stdin, io.StringIO(given)
        try:
            code = main(arguments, Environment(**{**vars(environment), **replaced}))
        finally:
            sys.stdin = stdin
        printed = capsys.readouterr()
        return Ran(code, printed.out, printed.err)

    with _process_as_before():
        yield run


@contextmanager
def _process_as_before() -> Iterator[None]:
    """A command sets a signal handler and loggers, as a process of its own may."""
    handler = signal.getsignal(signal.SIGTERM)
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    kept = [(each, each.handlers[:], each.level, each.propagate) for each in loggers]
    yield
    signal.signal(signal.SIGTERM, handler)
    for logger, handlers, level, propagate in kept:
        logger.handlers[:] = handlers
        logger.setLevel(level)
        logger.propagate = propagate
