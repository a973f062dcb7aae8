"""Runs a command: its result, exceptions, signals and a closed pipe become an exit code."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import click
from click.shell_completion import shell_complete

from tandem_kafka.cli import failures
from tandem_kafka.cli.program import program

if TYPE_CHECKING:
    from tandem_kafka.cli.environment import Environment


NAME: Final = "tandem-kafka"
#: Set by the scripts that `tandem-kafka completion` prints.
COMPLETE: Final = "_TANDEM_KAFKA_COMPLETE"


def run(arguments: Sequence[str] | None, environment: Environment | None) -> int:
    """Run the command line; returns the exit code."""
    if COMPLETE in os.environ:
        return shell_complete(program, {}, NAME, COMPLETE, os.environ[COMPLETE])
    meta: dict[str, Any] = {}
    # SIGTERM ends a command as Ctrl-C does: the consumer is closed, and partial files are removed.
    with suppress(ValueError):  # not the main thread
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        context = program.make_context(NAME, _given(arguments), obj=environment)
        meta = context.meta
        with context:
            result = program.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as asked:
        return asked.exit_code
    except BaseException as error:  # noqa: BLE001 - each one becomes a line and a code
        return failures.report(
            error, failed=meta.get("failed", failures.FAILED), verbose=bool(meta.get("verbose"))
        )
    return result if isinstance(result, int) else failures.OK


def _given(arguments: Sequence[str] | None) -> list[str]:
    return list(sys.argv[1:] if arguments is None else arguments)
