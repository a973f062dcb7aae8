"""The entry point: `tandem-kafka`, or `python -m tandem_kafka_cli`."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import shell_complete

from tandem_kafka_cli import failures
from tandem_kafka_cli.program import COMPLETE, NAME, program

if TYPE_CHECKING:
    from tandem_kafka_cli.environment import Environment

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None, environment: Environment | None = None) -> int:
    """Run a command: its result, exceptions, signals and a closed pipe become an exit code.

    Args:
        arguments: The arguments; those of the process by default.
        environment: What the command uses; a test has its own.
    """
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


if __name__ == "__main__":
    sys.exit(main())
