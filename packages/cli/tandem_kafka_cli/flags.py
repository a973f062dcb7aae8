"""Flags that several commands have, and what they mean."""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import Callable
from typing import Any, Final

import click

from tandem_kafka.foreign_text import visible
from tandem_kafka_cli.environment import current

TOPIC: Final = click.option("-t", "--topic", required=True, metavar="TOPIC", help="The topic.")
PARTITIONS: Final = click.option(
    "-p", "--partition", "partitions", type=int, multiple=True, metavar="N",
    help="A partition; repeat it for more. All by default.",
)  # fmt: skip
GROUP: Final = click.option("-g", "--group", metavar="GROUP", help="The group.")
JSON: Final = click.option("-J", "--json", "as_json", is_flag=True, help="Print JSON lines.")
YES: Final = click.option("--yes", is_flag=True, help="Do not ask.")

#: Levels of the log by the number of `--verbose`.
_LEVELS: Final = (logging.CRITICAL, logging.INFO, logging.DEBUG)


def clusters(context: click.Context, _: click.Parameter, begun: str) -> list[str]:
    """Complete the name of a cluster from the file with clusters."""
    import os
    from pathlib import Path

    from tandem_kafka_cli.settings.files import cluster_names, default_file
    from tandem_kafka_cli.settings.layers import CONFIG

    named = context.params.get("config") or os.environ.get(CONFIG)
    names = cluster_names(Path(named) if named else default_file(os.environ))
    return [name for name in names if name.startswith(begun)]


_CONNECTION: Final = (
    click.option("-b", "--brokers", metavar="HOST:PORT,...", help="Brokers to connect to first."),
    click.option(
        "--cluster", metavar="NAME", shell_complete=clusters, help="A cluster of the config file."
    ),
    click.option(
        "--config", metavar="FILE", type=click.Path(),
        help="Clusters (.toml), or properties of Java, librdkafka or kcat.",
    ),
    click.option(
        "-X", "properties", metavar="KEY=VALUE", multiple=True,
        help="Set an option, by the name in Java, librdkafka or tandem-kafka.",
    ),
    click.option("--verbose", count=True, help="Log to stderr; twice for everything."),
)  # fmt: skip


def connected(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags of a connection; the function gets them as `connection`."""

    @functools.wraps(command)
    def with_connection(**given: Any) -> Any:
        from tandem_kafka_cli.connection import Connection
        from tandem_kafka_cli.settings.layers import Flags

        names = ("brokers", "cluster", "config", "properties")
        _log_to_stderr(given.pop("verbose"), waits=bool(given.get("follow")))
        flags = Flags(**{name: given.pop(name) for name in names})
        return command(connection=Connection(flags, current()), **given)

    for flag in reversed(_CONNECTION):
        with_connection = flag(with_connection)
    return with_connection


class _Lines(logging.Formatter):
    """Formats records without effect on a terminal: brokers write a part of their text."""

    def format(self, record: logging.LogRecord) -> str:
        return visible(super().format(record), keep="\n\t")


def _log_to_stderr(verbose: int, *, waits: bool) -> None:
    """Keep the output of a failure to one line, unless the log is asked for.

    A command that waits for records must say if a broker is down: it shows warnings.
    """
    click.get_current_context().find_root().meta["verbose"] = verbose
    level = _LEVELS[min(verbose, len(_LEVELS) - 1)]
    if waits:
        level = min(level, logging.WARNING)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    for name in ("tandem_kafka", "kafka"):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.propagate = False
        # kafka-python's clients log their passwords at DEBUG.
        logger.setLevel(level if name == "tandem_kafka" else max(level, logging.INFO))
