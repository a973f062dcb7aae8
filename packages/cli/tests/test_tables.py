"""Tables, their forms on a terminal and in a pipe; topics of a simulated cluster; trends."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator

import pytest
from rich.console import Console

from packages.cli.tests.commands import Run
from tandem_kafka.types import TopicPartition
from tandem_kafka_cli import output
from tandem_kafka_cli.commands import lag
from tandem_kafka_cli.commands.lag import _fitting
from tandem_kafka_cli.commands.partitions import shown_bytes
from tandem_kafka_cli.groups import Group, Member, StartOffset, shown_partitions
from tandem_kafka_cli.lags import History, Lag, shared_lags_of, sparkline
from tandem_kafka_cli.output import Column, show
from tandem_kafka_cli.records.copying import Pace
from tandem_kafka_testing import SimClock
from tandem_kafka_testing.laboratory import SimulatedKafka

COLUMNS = (Column("name"), Column("lag", number=True), Column("unused"))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def printed_lines(columns: tuple[Column, ...], rows: list[dict[str, object]]) -> list[str]:
    stream = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", stream)
        show(columns, rows, as_json=False)
    return stream.getvalue().splitlines()


def test_a_table_in_a_pipe_is_never_wrapped() -> None:
    long = "x" * 300
    lines = printed_lines(COLUMNS, [{"name": long, "lag": 1234567}, {"name": "b", "lag": None}])
    assert lines[0].split() == ["NAME", "LAG"]
    assert lines[1].split() == [long, "1,234,567"]
    assert lines[2].split() == ["b", "-"]


def test_a_name_cannot_control_the_terminal() -> None:
    assert printed_lines(COLUMNS, [{"name": "a\x1b[2Jb", "lag": 1}])[1].startswith("a\\x1b[2Jb")
    heading, cells = printed_lines((Column("a\x1b\nb"),), [{"a\x1b\nb": ["\x9b2J", "\u202e"]}])
    assert (heading, cells) == ("A\\x1b\\nB", "\\x9b2J,\\u202e")
    nested = printed_lines(COLUMNS, [{"name": {"\x9b": ["\x1b", 1.5]}, "lag": 1}])[1]
    assert nested.startswith('{"\\x9b": ["\\u001b", 1.5]}')


def test_json_lines(capsys: pytest.CaptureFixture[str]) -> None:
    show(COLUMNS, [{"name": "ü\n", "lag": None}], as_json=True)
    assert capsys.readouterr().out == '{"name":"ü\\n","lag":null}\n'


@pytest.mark.parametrize("colours", [True, False])
def test_colours_only_where_they_are_wanted(monkeypatch: pytest.MonkeyPatch, colours: bool) -> None:
    monkeypatch.setattr("sys.stdout", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "" if colours else "1")
    assert output.coloured() is colours
    monkeypatch.setattr("sys.stdout", io.StringIO())
    assert not output.coloured()


def test_a_table_that_is_too_wide_becomes_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr("sys.stdout", stream)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    rows = [{"name": "x" * 130, "owner": str(number)} for number in range(2)]
    show([Column("name"), Column("owner")], rows, as_json=False)
    assert stream.getvalue().splitlines() == [
        f"NAME   {'x' * 130}",
        "OWNER  0",
        "",
        f"NAME   {'x' * 130}",
        "OWNER  1",
    ]


def test_a_long_name_is_folded_beside_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr("sys.stdout", stream)
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("NO_COLOR", "1")
    numbers = [Column(name, number=True) for name in ("partitions", "replicas", "no leader")]
    row = {"topic": "t" * 70, "partitions": 3, "replicas": 1, "no leader": 0}
    show([Column("topic"), *numbers], [row], as_json=False)
    lines = re.sub(r"\x1b\[\d*m", "", stream.getvalue()).splitlines()
    assert lines[0].split() == ["TOPIC", "PARTITIONS", "REPLICAS", "NO", "LEADER"]
    assert lines[1].split()[1:] == ["3", "1", "0"]
    assert sum(line.count("t") for line in lines[1:]) == 70
    assert max(map(len, lines)) <= 60


def test_topics(run: Run, cluster: SimulatedKafka) -> None:
    cluster.create_topic("payments")
    cluster.produce("orders", b"1", b"2")
    assert [row["topic"] for row in run("topics", "-J").rows] == ["orders", "payments"]
    assert [row["topic"] for row in run("topics", "^pay", "-J").rows] == ["payments"]
    assert [row["offsets"] for row in run("topics", "--offsets", "-J").rows] == [2, 0]
    assert run("topics", "--offsets").out.splitlines()[1].split()[-1] == "2"


def test_partitions_in_a_short_form() -> None:
    partitions = [TopicPartition("a", number) for number in (0, 1, 2, 5, 7, 8)]
    assert shown_partitions([*partitions, TopicPartition("b", 3)]) == "a:0-2,5,7-8 b:3"


def test_bytes() -> None:
    sizes = (0, 999, 1_000, 123_456, 5_000_000, 10**19)
    assert [shown_bytes(size) for size in sizes] == [
        "0 B",
        "999 B",
        "1.0 kB",
        "123 kB",
        "5.0 MB",
        "10000.0 PB",
    ]


def test_a_sparkline() -> None:
    assert sparkline([]) == ""
    assert sparkline([0, 0]) == "▁▁"
    assert sparkline([0, 50, 100]) == "▁▅█"
    assert sparkline([-990, 0, 10]) == "▁▁█"
    assert sparkline([-990, -1]) == "▁▁"


def test_the_trends_of_partitions_have_one_scale() -> None:
    """A lag of 8 is no tower beside one of 80."""
    history = History()
    for at_ms in range(3):
        lags = [Lag(TopicPartition("t", n), 0, lag, None) for n, lag in enumerate([8, 80])]
        history.add(at_ms, lags)
    assert [history.trend(each.tp) for each in lags] == ["▂▂▂", "███"]


def test_a_partition_that_is_gone_does_not_scale_the_others() -> None:
    history, left = History(), TopicPartition("t", 0)
    history.add(0, [Lag(left, 0, 8, None), Lag(TopicPartition("deleted", 0), 0, 1_000_000, None)])
    history.add(1, [Lag(left, 0, 4, None)])
    assert history.trend(left) == "█▅"


def test_a_screen_takes_no_more_partitions_than_it_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands would take seconds for each look; the last one stays whole."""
    monkeypatch.setenv("LINES", "30")
    tables: list[int] = []
    monkeypatch.setattr(lag, "_fitting", lambda rows, _: tables.append(len(rows)) or "")
    lags, history = [Lag(TopicPartition("t", n), 0, n, None) for n in range(500)], History()

    def looks() -> Iterator[tuple[list[Lag], History]]:
        for at_ms in range(2):
            history.add(at_ms, lags)
            yield lags, history
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lag._watch_on_terminal("billing", looks(), SimClock())
    assert tables == [30, 30, 500]


@pytest.mark.parametrize("width", [80, 50])
def test_a_trend_is_never_folded(width: int) -> None:
    row = {"topic": "orders", "partition": 0, "lag": 6, "client": "billing-1", "trend": "▁" * 12}
    written = io.StringIO()
    screen = Console(file=written, width=width)
    screen.print(_fitting([{**row, "committed": 12_345, "end": 12_351, "rate": 75}], screen))
    shown = written.getvalue()
    assert ("▁" * 12 in shown) is (width == 80)
    assert ("▁" in shown) is (width == 80)


def test_rates_and_trends() -> None:
    tp = TopicPartition("orders", 0)
    history = History()
    assert history.rate(tp) is None
    for second in range(20):
        history.add(1_000 * second, [Lag(tp, 100 * second, 2_000, None)])
    assert history.rate(tp) == 100
    assert len(history.trend(tp)) == len(history.total_trend()) == 12
    assert history.trend(tp)[0] == "█"
    gone = TopicPartition("gone", 0)
    history.add(20_000, [Lag(gone, 5, None, None)])
    assert (history.rate(gone), history.trend(gone)) == (None, "")


def test_the_lag_of_a_partition_with_many_owners(cluster: SimulatedKafka) -> None:
    """The broker reports the lag, and the first owners are named."""
    tp, gone = TopicPartition("orders", 0), TopicPartition("gone", 0)
    owners = [Member(name, name, "", assigned=(tp,)) for name in "bcdae"]
    starts = {tp: StartOffset(0, 0, 7), gone: StartOffset(None, 0, None)}
    with cluster.simulation.consumer() as consumer:
        lags = shared_lags_of(Group("g", "share", "", "", members=tuple(owners)), starts, consumer)
        few = Group("g", "share", "", "", members=tuple(owners[:3]))
        assert shared_lags_of(few, starts, consumer)[0].client_id == "b,c,d"
    assert [(each.lag, each.end, each.client_id) for each in lags] == [
        (7, 0, "a,b,c,+2"),
        (None, None, None),
    ]


def test_the_pace_of_a_copy(cluster: SimulatedKafka) -> None:
    simulation = cluster.simulation
    pace = Pace(simulation.clock, lambda ms: simulation.sleep(round(ms)), 100)
    assert pace.at_once == 10
    began_ms = simulation.clock.now_ms()
    for _ in range(11):
        pace.wait(10)
    assert simulation.clock.now_ms() - began_ms == 1_000
    simulation.sleep(5_000)
    for _ in range(3):
        pace.wait(10)
    assert simulation.clock.now_ms() - began_ms == 6_200
