"""`tandem-kafka lag`: how far a group is behind, once or again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from tandem_kafka.tables.times import duration_ms
from tandem_kafka_cli import flags
from tandem_kafka_cli.commands.groups import described, found_group
from tandem_kafka_cli.failures import CommandError
from tandem_kafka_cli.output import (
    Colours,
    Column,
    console,
    counted,
    json_line,
    on_terminal,
    show,
    table,
)
from tandem_kafka_cli.times import shown_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console
    from rich.table import Table

    from tandem_kafka import KafkaConsumer
    from tandem_kafka.runtime import Clock
    from tandem_kafka_cli.administration import Administration
    from tandem_kafka_cli.connection import Connection
    from tandem_kafka_cli.lags import History, Lag


_COLUMNS: Final = (
    Column("topic"),
    Column("partition", "#", number=True),
    Column("committed", number=True),
    Column("start", number=True),
    Column("end", number=True),
    Column("lag", number=True),
    Column("client", "owner", of_member=True),
)
_WATCHED: Final = (
    *_COLUMNS,
    Column("rate", "records/s", number=True),
    Column("trend", "lag", number=True, of_member=True),
)
#: Wider than any table.
_WIDEST: Final = 10_000


@click.command()
@flags.GROUP
@click.option("-t", "--topic", metavar="TOPIC", help="Only this topic.")
@click.option("-w", "--watch", is_flag=True, help="Repeat until Ctrl-C, with a trend.")
@click.option(
    "--interval", default="2s", metavar="TIME", show_default=True, help="How often to --watch."
)
@click.option("--limit", type=click.IntRange(0), metavar="N", help="Fail if the lag is above N.")
@flags.JSON
@flags.connected
def command(
    connection: Connection, group: str | None, topic: str | None, as_json: bool, **given: Any
) -> None:
    """Show the lag of a group: the end of each partition, less the committed offset.

    It is negative if the committed offset is beyond the end. The total counts it as 0.

    In a share group, it is the number of records from the start offset on that are not done,
    including those being processed. It is unknown until the first acknowledgement in a partition.

    The rate is that of the commits. With --limit, exits with 1 if the total is above the limit.
    """
    from tandem_kafka_cli.lags import total_of

    group_id, interval_ms = connection.group(group), duration_ms(given["interval"])
    with connection.administration() as administration, connection.consumer() as consumer:
        source = _Source(administration, consumer, group_id, topic)
        if given["watch"]:
            _watch(connection, source, max(interval_ms, 100), as_json=as_json)
        lags = source.lags()
    show(_COLUMNS, [_row(each) for each in lags], as_json=as_json)
    total = total_of(lags)
    if not as_json:
        print(_total_line(lags))
    if given["limit"] is not None and total > given["limit"]:
        raise CommandError(f"the lag of {group_id!r} is {total:,}, above {given['limit']:,}")


class _Source:
    """Looks up the lag of a group."""

    def __init__(
        self,
        administration: Administration,
        consumer: KafkaConsumer,
        group_id: str,
        topic: str | None,
    ) -> None:
        self._administration = administration
        self._consumer = consumer
        self._listed = found_group(administration, group_id)
        self._topic = topic
        self.group_id = group_id

    def lags(self) -> list[Lag]:
        """Return the lag of each partition that the group has committed or owns.

        Raises:
            CommandError: There is none.
        """
        lags = [each for each in self._all() if self._topic in {None, each.tp.topic}]
        if not lags:
            where = f" in {self._topic!r}" if self._topic else ""
            raise CommandError(
                f"the group {self.group_id!r} has committed and owns nothing{where}; "
                "`tandem-kafka groups` shows its state"
            )
        return lags

    def _all(self) -> list[Lag]:
        from tandem_kafka_cli.lags import lags_of, shared_lags_of

        group = described(self._administration, self._listed)
        if group.protocol == "share":
            starts = self._administration.start_offsets(self.group_id)
            return shared_lags_of(group, starts, self._consumer)
        committed = self._administration.committed(self.group_id)
        return lags_of(group, committed, self._consumer)


def _total_line(lags: list[Lag]) -> str:
    from tandem_kafka_cli.lags import total_of

    unknown = sum(each.lag is None for each in lags)
    beyond = sum((each.lag or 0) < 0 for each in lags)
    more = f", unknown in {counted(unknown, 'partition')}" if unknown else ""
    more += f", committed beyond the end of {counted(beyond, 'partition')}" if beyond else ""
    return f"total {total_of(lags):,}{more}"


def _row(lag: Lag) -> dict[str, Any]:
    return {
        "topic": lag.tp.topic,
        "partition": lag.tp.partition,
        "start" if lag.shared else "committed": lag.committed,
        "end": lag.end,
        "lag": lag.lag,
        "client": lag.client_id,
    }


def _watch(connection: Connection, source: _Source, interval_ms: int, *, as_json: bool) -> None:
    """Show the lag again and again; only an exception ends it."""
    looks, clock = _looks(connection, source, interval_ms), connection.environment.clock
    if on_terminal() and not as_json:
        _watch_on_terminal(source.group_id, looks, clock)
    for lags, history in looks:
        now_ms = clock.wall_ms()
        if as_json:
            for row in _watched_rows(lags, history):
                del row["trend"]
                print(json_line({"timestamp": now_ms, **row}), flush=True)
        else:
            print(f"{shown_time(now_ms)} {source.group_id} {_total_line(lags)}", flush=True)


def _looks(
    connection: Connection, source: _Source, interval_ms: int
) -> Iterator[tuple[list[Lag], History]]:
    """Look up the lag at every interval, without end.

    Raises:
        CommandError: There is none.
        KafkaError: The first look fails, or one fails for good: a coordinator that moves does not.
    """
    from tandem_kafka.errors import KafkaError
    from tandem_kafka_cli.lags import History

    history, environment, first = History(), connection.environment, True
    while True:
        try:
            lags = source.lags()
        except KafkaError as error:
            if first or not error.retriable:
                raise
        else:
            first = False
            history.add(environment.clock.now_ms(), lags)
            yield lags, history
        environment.sleep_ms(interval_ms)


def _watch_on_terminal(
    group_id: str, looks: Iterator[tuple[list[Lag], History]], clock: Clock
) -> None:
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    colours, screen = Colours(), console()
    shown: list[Any] = []

    def show_rows(most: int | None) -> Group:
        head, rows = shown
        return Group(head, _fitting(rows[:most], screen))

    with Live(console=screen, auto_refresh=False, vertical_overflow="ellipsis") as live:
        try:
            for lags, history in looks:
                time = shown_time(clock.wall_ms())[11:19]
                head = Text(f"{group_id}  {time} UTC  {_total_line(lags)}  {history.total_trend()}")
                rows = [
                    {**row, "style": colours.of(row["client"]) if row["client"] else ""}
                    for row in _watched_rows(lags, history)
                ]
                shown = [head, rows]
                # No more than are seen: thousands would take seconds.
                live.update(show_rows(screen.height), refresh=True)
        finally:
            if shown:
                live.update(show_rows(None))  # what stays behind is the whole table


def _fitting(rows: list[dict[str, Any]], screen: Console) -> Table:
    """Return the table; without trends if they would fold names, as on a narrow terminal."""
    made = table(_WATCHED, rows)
    free = screen.options.update(max_width=_WIDEST)
    if screen.measure(made, options=free).maximum <= screen.width:
        return made
    return table([each for each in _WATCHED if each.key != "trend"], rows)


def _watched_rows(lags: list[Lag], history: History) -> Iterator[dict[str, Any]]:
    for lag in lags:
        yield {**_row(lag), "rate": history.rate(lag.tp), "trend": history.trend(lag.tp)}
