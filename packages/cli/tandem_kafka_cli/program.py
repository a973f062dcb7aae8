"""The table of the commands, each imported when it is called."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from importlib.util import find_spec
from typing import Final, NamedTuple

import click

from tandem_kafka_cli.failures import CommandError

NAME: Final = "tandem-kafka"
#: Set by the scripts that `tandem-kafka completion` prints.
COMPLETE: Final = "_TANDEM_KAFKA_COMPLETE"


class LazyCommand(NamedTuple):
    """A command that is not imported yet.

    Attributes:
        module: The module, whose name `command` is the command.
        summary: One line for `tandem-kafka --help`.
        simulated: Whether it needs the simulated cluster, which is a package of its own.
    """

    module: str
    summary: str
    simulated: bool = False


#: The commands in the order of `tandem-kafka --help`.
COMMANDS: Final = {
    "tail": LazyCommand("tandem_kafka_cli.commands.tail", "Show the last records of a topic."),
    "grep": LazyCommand("tandem_kafka_cli.commands.grep", "Find records by a regular expression."),
    "cat": LazyCommand("tandem_kafka_cli.commands.cat", "Write records to a file or to stdout."),
    "topics": LazyCommand("tandem_kafka_cli.commands.topics", "List the topics."),
    "partitions": LazyCommand(
        "tandem_kafka_cli.commands.partitions", "Show sizes, leaders and offsets of a topic."
    ),
    "groups": LazyCommand("tandem_kafka_cli.commands.groups", "Show groups and their members."),
    "lag": LazyCommand("tandem_kafka_cli.commands.lag", "Show how far behind a group is."),
    "rebalances": LazyCommand(
        "tandem_kafka_cli.commands.rebalances", "Watch who joins and leaves a group."
    ),
    "offsets": LazyCommand(
        "tandem_kafka_cli.commands.offsets", "Show, reset or delete offsets of a group."
    ),
    "doctor": LazyCommand(
        "tandem_kafka_cli.commands.doctor", "Find out why a connection does not work."
    ),
    "copy": LazyCommand("tandem_kafka_cli.commands.copy", "Copy records to another topic."),
    "sql": LazyCommand("tandem_kafka_cli.commands.sql", "Query topics with DuckDB."),
    "serve": LazyCommand(
        "tandem_kafka_cli.commands.serve", "Run a cluster to try things on.", simulated=True
    ),
    "demo": LazyCommand(
        "tandem_kafka_cli.commands.demo",
        "Watch a group lose members but no records.",
        simulated=True,
    ),
    "completion": LazyCommand(
        "tandem_kafka_cli.commands.completion", "Print the completion of a shell."
    ),
}


class _Commands(click.Group):
    """Shows the table, and imports what is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return [*COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        found = COMMANDS.get(cmd_name)
        if found is None:
            return None
        if found.simulated and find_spec("tandem_kafka_testing") is None:
            return _lacking(cmd_name)
        command: click.Command = import_module(found.module).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        near = [] if name in COMMANDS else get_close_matches(name, COMMANDS, n=1)
        if near and not ctx.resilient_parsing:
            ctx.fail(f"No such command {name!r}. Did you mean {near[0]!r}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, each.summary) for name, each in COMMANDS.items()])


def _lacking(name: str) -> click.Command:
    """Return a command that says what to install; completion, which asks for it too, does not."""

    @click.command(name, add_help_option=False, context_settings={"ignore_unknown_options": True})
    @click.argument("given", nargs=-1, type=click.UNPROCESSED)
    def command(given: tuple[str, ...]) -> None:  # noqa: ARG001 - whatever it is
        raise CommandError(f"{name} needs a simulated cluster: pip install 'tandem-kafka[demo]'")

    return command


def _show_version(ctx: click.Context, _: click.Parameter, given: bool) -> None:
    if given:
        from tandem_kafka import __version__, native_available

        kind = "native" if native_available else "Python implementation, several times slower"
        click.echo(f"tandem-kafka {__version__} ({kind})")
        ctx.exit()


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    callback=_show_version,
    expose_value=False,
    help="Show the version and exit.",
)
def program() -> None:
    """Reads topics, shows groups and their lag, and moves offsets.

    Each command connects with -b, with --cluster NAME (from ~/.config/tandem-kafka.toml), or
    with TANDEM_KAFKA_BROKERS. A flag overrides the environment, which overrides a file.

    Other tools produce records (kcat), and create topics (kafka-topics.sh) and ACLs
    (kafka-acls.sh).

    Exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 130 Ctrl-C. `grep` exits with 1 if
    nothing matched, and with 2 if it failed.
    """
