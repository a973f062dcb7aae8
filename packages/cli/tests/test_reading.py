"""`tail`, `grep` and `cat` on a simulated cluster."""

from __future__ import annotations

import itertools
import json
import os
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from packages.cli.tests.commands import Run
from tandem_kafka.errors import KafkaTimeoutError
from tandem_kafka.tables import reader as reading
from tandem_kafka.tables.span import Span
from tandem_kafka.types import TopicPartition
from tandem_kafka_cli.records.progress import progress
from tandem_kafka_testing.laboratory import SimulatedKafka

VALUES = [b'{"order": %d}' % number for number in range(20)]


@pytest.fixture(autouse=True)
def orders(cluster: SimulatedKafka) -> None:
    """Records 0 to 19 in turn to two partitions, a second apart."""
    for number, value in enumerate(VALUES):
        cluster.produce("orders", value, partition=number % 2)
        cluster.advance(1_000)


def numbers(out: str) -> list[int]:
    return [json.loads(line)["order"] for line in out.splitlines()]


def test_the_last_records_in_the_order_of_time(run: Run) -> None:
    assert numbers(run("tail", "-t", "orders", "-n", "5", "-f", "%v\\n").out) == [*range(15, 20)]
    assert numbers(run("tail", "-t", "orders", "-f", "%v\\n").out) == [*range(10, 20)]
    assert run("tail", "-t", "orders", "-n", "0").out == ""
    assert numbers(run("tail", "-t", "orders", "-n", "99", "-f", "%v\\n").out) == [*range(20)]


@pytest.mark.parametrize("behind", [0, 1])
def test_the_last_records_of_a_log_with_gaps(
    run: Run, cluster: SimulatedKafka, behind: int
) -> None:
    """Aborted records have offsets: the last three readable ones are far before the end."""
    changes = TopicPartition("changes", 0)
    cluster.create_topic("changes")
    cluster.cluster.produce(changes, *VALUES[:4])
    transaction = cluster.cluster.transaction()
    transaction.produce(changes, *VALUES * 5)
    transaction.abort()
    cluster.cluster.produce(changes, *VALUES[4 : 4 + behind])
    ran = run("tail", "-t", "changes", "-n", "3", "-f", "%v\\n")
    assert numbers(ran.out) == [1 + behind, 2 + behind, 3 + behind]


@pytest.mark.parametrize(
    "command",
    [
        ("tail", "-t", "changes", "-f", "%v\\n"),
        ("tail", "-t", "changes", "-o", "beginning", "-f", "%v\\n"),
        ("cat", "-t", "changes", "-f", "%v\\n"),
        ("grep", "order", "-t", "changes", "-f", "%v\\n"),
        ("sql", "SELECT CAST(value ->> 'order' AS INT) AS \"order\" FROM changes", "-J"),
    ],
    ids=lambda command: " ".join(command[:1] + command[3:5]),
)
def test_records_of_aborted_and_open_transactions_are_left_out(
    run: Run, cluster: SimulatedKafka, command: tuple[str, ...]
) -> None:
    changes = TopicPartition("changes", 0)
    cluster.create_topic("changes")
    for values, end in ((VALUES[:2], "commit"), (VALUES[2:4], "abort"), (VALUES[4:5], "commit")):
        transaction = cluster.cluster.transaction()
        transaction.produce(changes, *values)
        getattr(transaction, end)()
    cluster.cluster.transaction().produce(changes, VALUES[5])
    assert numbers(run(*command).out) == [0, 1, 4]
    assert numbers(run(*command, "--uncommitted").out) == [0, 1, 2, 3, 4, 5]
    assert numbers(run(*command, "-X", "isolation.level=read_uncommitted").out) == [*range(6)]


def test_a_time_without_a_later_record_is_the_end(run: Run, cluster: SimulatedKafka) -> None:
    cluster.advance(600_000)
    assert run("cat", "-t", "orders", "-o", "s@5m", "-f", "%v\\n").out == ""
    cluster.produce("orders", b'{"order": 99}')
    assert numbers(run("cat", "-t", "orders", "-o", "s@5m", "-f", "%v\\n").out) == [99]


def test_an_offset_beyond_the_end_is_named(run: Run) -> None:
    ran = run("cat", "-t", "orders", "-o", "99")
    assert ran.out == ""
    assert ran.err.splitlines() == [
        "-o 99 is beyond the end: orders-0 at 10, orders-1 at 10; their ends are used"
    ]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["-o", "beginning"], [*range(20)]),
        (["-o", "end"], []),
        (["-o", "8"], [16, 17, 18, 19]),
        (["-o", "-1"], [18, 19]),
        (["-o", "-99"], [*range(20)]),
        (["-o", "99"], []),
        (["-o", "-2", "-p", "1"], [17, 19]),
        (["--from", "4500ms"], [16, 17, 18, 19]),
        (["-o", "s@4500ms"], [16, 17, 18, 19]),
        (["--from", "8500ms", "--until", "4500ms"], [12, 13, 14, 15]),
    ],
)
def test_a_range(run: Run, arguments: list[str], expected: list[int]) -> None:
    for command in ("tail", "cat"):
        ran = run(command, "-t", "orders", *arguments, "-f", "%v\\n")
        assert sorted(numbers(ran.out)) == expected, command


def test_records_that_are_deleted_meanwhile_take_no_others_along(
    run: Run, cluster: SimulatedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = reading.SpanReader.batches

    def later(self: reading.SpanReader) -> object:
        cluster.cluster.delete_records(TopicPartition("orders", 0), 5)
        return batches(self)

    monkeypatch.setattr(reading.SpanReader, "batches", later)
    assert numbers(run("cat", "-t", "orders", "-p", "0", "-f", "%v\\n").out) == [*range(10, 20, 2)]


def test_follow_continues_behind_the_last_records(
    run: Run, cluster: SimulatedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    follow = reading.SpanReader.follow

    def interrupted(self: reading.SpanReader) -> object:
        for number in (20, 21):
            cluster.produce("orders", b'{"order": %d}' % number, partition=number % 2)
        yield from itertools.islice(follow(self), 4)
        raise KeyboardInterrupt

    monkeypatch.setattr(reading.SpanReader, "follow", interrupted)
    ran = run("tail", "-t", "orders", "-n", "2", "-F", "-f", "%v\\n")
    assert numbers(ran.out)[:2] == [18, 19]
    assert sorted(numbers(ran.out)[2:]) == [20, 21]
    assert (ran.code, ran.err) == (130, "")


def test_follow_after_a_span_misses_no_record(cluster: SimulatedKafka) -> None:
    """A fetch brings records beyond the end of a span; they belong to what follows."""

    tp = TopicPartition("orders", 0)
    consumer = cluster.consumer()
    reader = reading.SpanReader(consumer, Span({tp: 0}, {tp: 4}), cluster.simulation.clock)
    first = [record.offset for batch in reader.batches() for record in batch]
    assert first == [0, 1, 2, 3]
    then: list[int] = []
    for batch in itertools.islice(reader.follow(), 20):
        then += [record.offset for record in batch]
        if len(then) >= 6:
            break
    assert then == [4, 5, 6, 7, 8, 9]


def test_a_reader_without_progress_says_why(cluster: SimulatedKafka) -> None:

    tp = TopicPartition("orders", 0)
    reader = reading.SpanReader(
        cluster.consumer(), Span({tp: 0}, {tp: 50}), cluster.simulation.clock
    )
    began_ms = cluster.now_ms
    with pytest.raises(KafkaTimeoutError, match="no record arrived for 30 s; 1 partitions are not"):
        list(reader.batches())
    assert 30_000 < cluster.now_ms - began_ms < 33_000


def test_grep_has_the_exit_codes_of_grep(run: Run) -> None:
    found = run("grep", '"order": 1[0-2]}', "-t", "orders", "-f", "%v\\n")
    assert (found.code, sorted(numbers(found.out))) == (0, [10, 11, 12])
    nothing = run("grep", "nothing", "-t", "orders")
    assert (nothing.code, nothing.out) == (1, "")
    wrong = run("grep", "(", "-t", "orders")
    assert wrong.code == 2
    assert "is not a regular expression" in wrong.err
    assert run("grep", "x", "-t", "missing").code == 2


def test_grep_counts_inverts_and_stops(run: Run) -> None:
    assert run("grep", "1", "-t", "orders", "-c").out == "11\n"
    assert run("grep", "1", "-t", "orders", "-c", "-v").out == "9\n"
    assert run("grep", "ORDER", "-t", "orders", "-c", "-i").out == "20\n"
    assert run("grep", "o.der", "-t", "orders", "-c", "--fixed").code == 1
    assert len(run("grep", "1", "-t", "orders", "-m", "3").out.splitlines()) == 3
    assert run("grep", "1", "-t", "orders", "-k").code == 1


def test_json_lines(run: Run) -> None:
    rows = run("tail", "-t", "orders", "-n", "1", "--json").rows
    assert [(row["partition"], row["offset"], row["value"]) for row in rows] == [
        (1, 9, '{"order": 19}')
    ]


def test_cat_to_files(run: Run, tmp_path: Path) -> None:
    for name in ("a.jsonl", "a.parquet", "a.arrow"):
        ran = run("cat", "-t", "orders", "-O", str(tmp_path / name), "--value", "1")
        assert (ran.code, ran.out) == (0, "")
        assert ran.err == f"11 records in {tmp_path / name}\n"
    lines = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    tables = [
        pq.read_table(tmp_path / "a.parquet"),
        pa.ipc.open_stream(tmp_path.joinpath("a.arrow").read_bytes()).read_all(),
    ]
    values = sorted(line["value"].encode() for line in lines)
    assert values == sorted(value for value in VALUES if b"1" in value)
    for table in tables:
        assert sorted(table["value"].to_pylist()) == values
        assert set(table["topic"].to_pylist()) == {"orders"}


def test_an_empty_range_gives_complete_files(run: Run, tmp_path: Path) -> None:
    run("cat", "-t", "orders", "-o", "end", "-O", str(tmp_path / "a.parquet"))
    assert pq.read_table(tmp_path / "a.parquet").num_rows == 0


@pytest.mark.skipif(os.name != "posix", reason="other systems have no such pipes")
def test_a_pipe_is_written_to_and_a_link_stays_one(run: Run, tmp_path: Path) -> None:
    """/dev/stdout was replaced with a file, if the user may do so."""
    pipe, link = tmp_path / "pipe.jsonl", tmp_path / "link.jsonl"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        run("cat", "-t", "orders", "-O", str(pipe))
        assert os.read(reading, 1 << 16).count(b"\n") == len(VALUES)
    finally:
        os.close(reading)
    assert pipe.is_fifo()
    link.symlink_to("target.jsonl")
    run("cat", "-t", "orders", "-O", str(link))
    assert link.is_symlink()
    assert (tmp_path / "target.jsonl").read_bytes().count(b"\n") == len(VALUES)


def test_a_failed_file_leaves_nothing(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("before")

    def broken(**_: object) -> object:
        raise KeyboardInterrupt

    ran = run("cat", "-t", "orders", "-O", str(tmp_path / "none" / "a.jsonl"))
    assert ran.code == 1
    assert ran.err.startswith(f"tandem-kafka: {tmp_path}")
    assert run("cat", "-t", "orders", "-O", str(tmp_path / "a.jsonl"), consumer=broken).code == 130
    assert [each.name for each in tmp_path.iterdir()] == ["a.jsonl"]
    assert (tmp_path / "a.jsonl").read_text() == "before"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["tail", "-t", "ordres"], "did you mean 'orders'?"),
        (["tail", "-t", "orders", "-p", "7"], "has no partition 7; it has 0 to 1"),
        (["tail", "-t", "orders", "-o", "x"], "-o 'x' is no position: write beginning, end"),
        (["tail", "-t", "orders", "-n", "1", "-o", "1"], "choose one of -n and a range"),
        (["tail", "-t", "orders", "-o", "1", "--from", "1s"], "choose one of -o and --from"),
        (["tail", "-t", "orders", "-F", "--until", "1s"], "choose one of --follow and --until"),
        (["tail"], "tail needs -t TOPIC (`tandem-kafka tail --help`"),
        (["tial"], "No such command 'tial'"),
        (["cat", "-t", "orders", "-O", "a.txt"], "choose a form with --to"),
        (["cat", "-t", "orders", "--to", "parquet", "--hex"], "choose one of --to and"),
    ],
)
def test_an_error_is_one_line(run: Run, arguments: list[str], text: str) -> None:
    ran = run(*arguments)
    assert ran.code in {1, 2}
    assert ran.out == ""
    assert len(ran.err.splitlines()) == 1
    assert text in ran.err


class Producer:
    """Acknowledges everything."""

    def __init__(self, *_: object, **__: object) -> None: ...

    def send(self, *_: object, **__: object) -> Producer:
        return self

    def get(self, timeout: float) -> None:
        assert timeout

    def close(self) -> None: ...


@pytest.mark.parametrize(
    "command",
    [
        ("cat", "-t", "orders"),
        ("copy", "orders", "copies"),
        ("sql", "SELECT count(*) FROM orders"),
    ],
)
def test_people_who_wait_for_a_range_see_how_far_it_is(
    run: Run, cluster: SimulatedKafka, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    if command[0] == "sql":
        pytest.importorskip("duckdb")
    cluster.create_topic("copies", 2)
    assert "20/20" not in run(*command, producer=Producer).err
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    ran = run(*command, producer=Producer)
    assert ran.code == 0
    assert "20/20" in ran.err


def test_a_bar_counts_from_the_beginning_of_the_range(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What has ended it stays visible: an error does not fill it."""
    tp = TopicPartition("orders", 0)
    reader: Any = SimpleNamespace(position={tp: 15})
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)

    def failing() -> None:
        with progress(reader, Span({tp: 10}, {tp: 20}), "[bold]orders") as advance:
            advance()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing()
    shown = capsys.readouterr().err
    assert "[bold]orders" in shown
    assert re.findall(r"\d+/10", shown)[-1] == "5/10"
