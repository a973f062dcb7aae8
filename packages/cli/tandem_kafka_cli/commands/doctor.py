"""`tandem-kafka doctor`: which step of a connection fails, and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import click

from tandem_kafka.tables.times import duration_ms
from tandem_kafka_cli import flags
from tandem_kafka_cli.failures import FAILED, OK, CommandError
from tandem_kafka_cli.output import console, json_line

if TYPE_CHECKING:
    from rich.console import Console

    from tandem_kafka_cli.connection import Connection
    from tandem_kafka_cli.doctor.finding import Finding


_STYLES: Final = {"ok": "green", "warning": "yellow", "failed": "bold red"}
_MARKS: Final = {"ok": "ok", "warning": "warn", "failed": "FAIL"}
#: The columns before the text: the mark, and the longest name of a step.
_MARK_WIDTH: Final = 5
_STEP_WIDTH: Final = 21


@click.command()
@click.option("-t", "--topic", metavar="TOPIC", help="Examine this topic, too.")
@flags.GROUP
@click.option("--share", is_flag=True, help="The group is, or will be, a share group.")
@click.option(
    "--timeout", default="5s", metavar="TIME", show_default=True, help="The limit of each step."
)
@flags.JSON
@flags.connected
def command(
    connection: Connection, topic: str | None, group: str | None, as_json: bool, **given: Any
) -> int:
    """Examine a connection step by step, and say which step fails.

    The steps are: options, name, TCP, TLS, SASL, API versions, metadata, advertised listeners, and
    for -t and -g: topic, clock, coordinator, group, committed offsets. Nothing is changed, and no
    group is joined. With a share group, or with --share: whether the cluster has share groups, and
    the settings.

    Exit codes: 0 all steps passed, 1 a step failed, 2 wrong usage.
    """
    from tandem_kafka_cli.doctor.examination import Subject, examine

    group_id, timeout_ms = group or connection.group_id, duration_ms(given["timeout"])
    if given["share"] and group_id is None:
        raise CommandError("--share needs -g GROUP", usage=True)
    subject = Subject(topic, group_id, timeout_ms, shared=given["share"])
    findings = examine(connection, subject)
    return _as_json(findings) if as_json else _as_text(findings)


def _as_json(findings: Iterable[Finding]) -> int:
    bad = 0
    for finding in findings:
        bad += finding.verdict.value == "failed"
        print(json_line(finding.as_row()), flush=True)
    return FAILED if bad else OK


def _as_text(findings: Iterable[Finding]) -> int:
    screen, target = console(), ""
    counts = dict.fromkeys(_MARKS, 0)
    for finding in findings:
        counts[finding.verdict.value] += 1
        if finding.target != target:
            target = finding.target
            screen.print(_printable(target), style="bold")
        _print(screen, finding)
    failures, warnings = counts["failed"], counts["warning"]
    if failures:
        text = f"{failures} of {sum(counts.values())} steps failed; fix the first failure first"
        screen.print(text, style=_STYLES["failed"])
        return FAILED
    screen.print(f"every step passed{f', {warnings} with a warning' if warnings else ''}")
    return OK


def _print(screen: Console, finding: Finding) -> None:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    verdict = finding.verdict.value
    row = Table.grid(padding=(0, 1))
    row.add_column(width=_MARK_WIDTH)
    row.add_column(width=_STEP_WIDTH)
    row.add_column(overflow="fold")
    mark = Text(_MARKS[verdict], style=_STYLES[verdict])
    row.add_row(mark, finding.step.value, Text(_printable(finding.seen)))
    if finding.advice:
        row.add_row("", "", Text(f"> {_printable(finding.advice)}", style="italic"))
    screen.print(Padding(row, (0, 0, 0, 2), expand=False))


def _printable(text: str) -> str:
    """Return text of a server without characters that control the terminal."""
    return text if text.isprintable() else text.encode("unicode_escape").decode()
