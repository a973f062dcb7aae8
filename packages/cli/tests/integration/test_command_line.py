"""The command `tandem-kafka` on a real broker: groups of both protocols, offsets, copies, SQL."""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from packages.cli.tests.commands import Ran, Run, runner
from tandem_kafka import KafkaConsumer, ShareConsumer, TopicPartition
from tandem_kafka_cli.environment import Environment
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.admin import Record
from tandem_kafka_testing.kafka.ports import free_ports
from tandem_kafka_testing.kafka.security import PASSWORD
from tandem_kafka_testing.served import ServedKafka
from tests.implementations import require_implementation
from tests.integration.polling import Consume
from tests.waiting import until, wait_until

HEADERS = [("trace", b"t"), ("empty", b"")]
#: The records are a minute apart; the last one is new.
MINUTE_MS = 60_000


class Commands:
    """Runs commands with the broker in the environment."""

    def __init__(self, kafka: RealKafka, run: Run) -> None:
        self.variables = {"TANDEM_KAFKA_BROKERS": kafka.bootstrap(), "HOME": "/nowhere"}
        self._run = run

    def run(self, *arguments: str, code: int = 0, given: str = "") -> Ran:
        """Run a command, which must end with this exit code."""
        ran = self._run(*arguments, given=given, variables=self.variables)
        assert ran.code == code, ran
        return ran

    def rows(self, *arguments: str) -> list[dict[str, Any]]:
        """Return the JSON lines of a command."""
        return self.run(*arguments, "--json").rows

    @contextmanager
    def started(self, *arguments: str) -> Iterator[IO[str]]:
        """Start a command in a process, and stop it at the end with SIGTERM."""
        command = [sys.executable, "-m", "tandem_kafka_cli", *arguments]
        with subprocess.Popen(
            command, env={**os.environ, **self.variables}, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            yield process.stdout
            process.terminate()
            assert process.wait(60) == 130


@pytest.fixture
def commands(kafka: RealKafka, capsys: pytest.CaptureFixture[str]) -> Iterator[Commands]:
    with runner(Environment(), capsys) as run:
        yield Commands(kafka, run)


@pytest.fixture
def orders(kafka: RealKafka) -> str:
    """Two partitions with five records each."""
    topic = kafka.admin.create_topic(f"orders-{uuid.uuid4().hex[:8]}", 2)
    now_ms = int(time.time() * 1000)
    kafka.admin.produce(
        topic,
        [
            Record(
                b'{"order": %d}' % number,
                b"key-%d" % (number % 3),
                number % 2,
                now_ms - (9 - number) * MINUTE_MS,
                HEADERS,
            )
            for number in range(10)
        ],
    )
    return topic


@pytest.fixture(params=["classic", "consumer"])
def group(request: pytest.FixtureRequest, orders: str, consume: Consume) -> KafkaConsumer:
    """A member that owns both partitions, and has committed three records of each."""
    name = f"{request.param}-{uuid.uuid4().hex[:8]}"
    options = {"group_id": name, "group_protocol": request.param, "client_id": "reader"}
    member = consume(orders, **options)
    for _ in until(lambda: len(member.assignment()) == 2):
        member.poll(100)
    for tp in member.assignment():
        member.seek(tp, 3)
    member.commit()
    return member


def test_topics_and_partitions(commands: Commands, orders: str) -> None:
    (topic,) = commands.rows("topics", orders, "--offsets")
    assert topic == {
        "topic": orders,
        "partitions": 2,
        "replicas": 1,
        "without_leader": 0,
        "under_replicated": 0,
        "offsets": 10,
    }
    rows = commands.rows("partitions", "-t", orders)
    assert [(row["partition"], row["leader"], row["first"], row["end"]) for row in rows] == [
        (0, 1, 0, 5),
        (1, 1, 0, 5),
    ]
    for row in rows:
        assert row["last_time"] - row["first_time"] == 8 * MINUTE_MS
        assert row["size"] > 0
    shown = commands.run("partitions", "-t", orders).out
    assert "9m ago" in shown


def test_tail_by_time(commands: Commands, orders: str) -> None:
    ran = commands.run("tail", "-t", orders, "--from", "150s", "-f", "%v\\n")
    assert sorted(ran.out.splitlines()) == [f'{{"order": {number}}}' for number in (7, 8, 9)]
    shown = commands.rows("tail", "-t", orders, "-n", "1")
    assert shown[0]["headers"] == [["trace", "t"], ["empty", ""]]


@pytest.mark.smoke
def test_a_group_its_lag_and_its_offsets(
    commands: Commands, orders: str, group: KafkaConsumer
) -> None:
    identity = group.group_metadata()
    name, protocol = str(identity.group_id), str(identity.group_id).partition("-")[0]
    (listed,) = commands.rows("groups", name)
    assert (listed["protocol"], listed["state"], listed["members"]) == (protocol, "Stable", 1)
    (described,) = commands.rows("groups", "-g", name)
    (member,) = described["members"]
    assert member["member"] == identity.member_id
    assert member["assignment"] == [[orders, 0], [orders, 1]]
    assert (member["epoch"] is None) == (protocol == "classic")
    assert "reader" in commands.run("groups", "-g", name).out

    lags = commands.rows("lag", "-g", name)
    assert [(row["committed"], row["end"], row["lag"], row["client"]) for row in lags] == [
        (3, 5, 2, "reader"),
        (3, 5, 2, "reader"),
    ]
    assert "above 3" in commands.run("lag", "-g", name, "--limit", "3", code=1).err
    assert commands.run("lag", "-g", name, "--limit", "4").out.endswith("total 4\n")

    refused = commands.run("offsets", "reset", "-g", name, "--to", "earliest", "--yes", code=1)
    assert f"the group {name!r} has 1 member (reader); stop them first" in refused.err
    assert [row["offset"] for row in commands.rows("offsets", "show", "-g", name)] == [3, 3]


def test_the_lag_is_watched(commands: Commands, group: KafkaConsumer) -> None:
    name = str(group.group_metadata().group_id)
    watch = ("lag", "-g", name, "--watch", "--interval", "100ms", "--json")
    with commands.started(*watch) as lines:
        rows = [json.loads(lines.readline()) for _ in range(4)]
    assert [row["lag"] for row in rows] == [2, 2, 2, 2]
    assert rows[2]["timestamp"] > rows[0]["timestamp"]
    assert [row["rate"] for row in rows] == [None, None, 0, 0]


def test_the_lag_is_watched_on_a_terminal(commands: Commands, group: KafkaConsumer) -> None:
    """Each table fits into 80 columns; the cursor is shown again at the end."""
    name = str(group.group_metadata().group_id)
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    command = [sys.executable, "-m", "tandem_kafka_cli"]
    arguments = ["lag", "-g", name, "--watch", "--interval", "100ms"]
    variables = {**os.environ, **commands.variables, "TERM": "xterm"}
    screen = io.StringIO()
    with subprocess.Popen([*command, *arguments], env=variables, stdout=theirs) as process:
        for _ in until(lambda: screen.getvalue().count("total 4") >= 4):
            screen.write(os.read(ours, 4096).decode(errors="replace"))
        process.terminate()
        assert process.wait(60) == 130
    screen.write(os.read(ours, 4096).decode(errors="replace"))
    shown = screen.getvalue()
    os.close(theirs)
    os.close(ours)
    assert "\u2588\u2588" in shown
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
    assert max(len(line) for line in re.split(r"[\r\n]+", plain)) <= 80


@pytest.mark.full("takes long on a real broker")
def test_rebalances_are_watched(
    commands: Commands, orders: str, group: KafkaConsumer, consume: Consume
) -> None:
    """A member joins and leaves; its partition goes to it, and back."""
    identity = group.group_metadata()
    name, protocol = str(identity.group_id), str(identity.group_id).partition("-")[0]
    watch = ("rebalances", "-g", name, "--interval", "100ms", "--json")
    with commands.started(*watch) as lines:
        begin, first = (json.loads(lines.readline()) for _ in range(2))
        assert (begin["state"], begin["protocol"]) == ("Stable", protocol)
        assert (first["member"], first["id"]) == ("reader", identity.member_id)
        assert first["partitions"] == [[orders, 0], [orders, 1]]
        second = consume(orders, group_id=name, group_protocol=protocol, client_id="second")
        while len(group.assignment()) != 1 or len(second.assignment()) != 1:
            group.poll(100)
            second.poll(100)
        rows = _until(lines, "rebalanced")
        second.close()
        while len(group.assignment()) != 2:
            group.poll(100)
        rows += _until(lines, "rebalanced")
    kinds = [row["event"] for row in rows if row.get("member") == "second"]
    assert kinds == ["joined", "gone"]
    moves = [row for row in rows if row["event"] == "moved"]
    assert [(row["from"], row["to"]) for row in moves] == [
        ("reader", "second"),
        ("second", "reader"),
    ]
    assert moves[0]["partitions"] == moves[1]["partitions"]
    assert (rows[-1]["epoch"] is None) == (protocol == "classic")


def _until(lines: IO[str], event: str) -> list[dict[str, Any]]:
    """Return the JSON lines until an event."""
    rows = [json.loads(lines.readline())]
    while rows[-1]["event"] != event:
        rows.append(json.loads(lines.readline()))
    return rows


def test_offsets_are_reset(commands: Commands, orders: str, consume: Consume) -> None:
    name = f"idle-{uuid.uuid4().hex[:8]}"

    def reset(to: str, *more: str, code: int = 0, given: str = "") -> list[int]:
        commands.run("offsets", "reset", "-g", name, "--to", to, *more, code=code, given=given)
        return [row["offset"] for row in commands.rows("offsets", "show", "-g", name)]

    assert reset("latest", "-t", orders, "--yes") == [5, 5]
    assert reset("earliest", "--dry-run") == [5, 5]
    assert reset("earliest", given="n\n", code=1) == [5, 5]
    silent = commands.run("offsets", "reset", "-g", name, "--to", "earliest", code=2)
    assert "use --yes" in silent.err
    assert reset("earliest", given="y\n") == [0, 0]
    assert reset("s@150s", "--yes") == [4, 3]
    assert reset("-2", "--yes", "-t", orders, "-p", "1") == [4, 3]
    assert reset("1", "--yes", "-t", orders, "-p", "1") == [4, 1]
    assert reset("99", "--yes") == [5, 5]
    other = f"other-{uuid.uuid4().hex[:8]}"
    commands.run("offsets", "reset", "-g", other, "-t", orders, "--to", f"group:{name}", "--yes")
    reader = consume(group_id=other)
    partitions = [TopicPartition(orders, number) for number in range(2)]
    assert [reader.committed(tp) for tp in partitions] == [5, 5]
    missing = commands.run("lag", "-g", f"{other}x", code=1)
    assert f"did you mean {other!r}?" in missing.err


@pytest.mark.full("takes long on a real broker")
@pytest.mark.both_clusters
def test_a_share_group_its_lag_and_its_offsets(
    commands: Commands, kafka: RealKafka, orders: str
) -> None:
    name = f"share-{uuid.uuid4().hex[:8]}"
    # Waits until a new cluster has coordinators.
    commands.run("doctor", "-g", name, "--timeout", "60s")
    commands.run(
        "offsets", "reset", "-g", name, "-t", orders, "--to", "earliest", "--share", "--yes"
    )
    (listed,) = commands.rows("groups", name)
    assert (listed["protocol"], listed["state"], listed["members"]) == ("share", "Empty", 0)
    with sharing(kafka, orders, name, "one") as one, sharing(kafka, orders, name, "two") as two:
        lags: list[Any] = []

        def shared() -> bool:
            accept(one)
            accept(two)
            (group,) = commands.rows("groups", "-g", name)
            lags[:] = commands.rows("lag", "-g", name)
            each_has_one = [len(each["assignment"]) for each in group["members"]] == [1, 1]
            return each_has_one and not any(row["lag"] for row in lags)

        wait_until(shared, "a partition for each")
        (described,) = commands.rows("groups", "-g", name)
        members = sorted(described["members"], key=lambda each: each["client"])
        assert described["state"] == "Stable"
        assert [(each["client"], each["topics"]) for each in members] == [
            ("one", [orders]),
            ("two", [orders]),
        ]
        assert sorted(each["assignment"] for each in members) == [[[orders, 0]], [[orders, 1]]]
        assert re.search(rf"\bone .* {orders}:\d ", commands.run("groups", "-g", name).out)
        assert sorted(row["client"] for row in lags) == ["one", "two"]
        assert [row["end"] for row in lags] == [5, 5]
        refused = commands.run("offsets", "reset", "-g", name, "--to", "earliest", "--yes", code=1)
        assert f"the group {name!r} has 2 members (one, two); stop them first" in refused.err
        refused = commands.run("offsets", "delete", "-g", name, "-t", orders, "--yes", code=1)
        assert "stop them first" in refused.err

    def reset(to: str, *more: str) -> list[tuple[int, int]]:
        commands.run("offsets", "reset", "-g", name, "--to", to, *more)
        return [(row["start"], row["lag"]) for row in commands.rows("lag", "-g", name)]

    before = reset("earliest", "--dry-run")
    assert reset("latest", "--yes") == [(5, 0), (5, 0)] != before
    assert reset("-2", "-t", orders, "-p", "1", "--yes") == [(5, 0), (3, 2)]
    assert [row["offset"] for row in commands.rows("offsets", "show", "-g", name)] == [5, 3]
    other = f"other-{uuid.uuid4().hex[:8]}"
    commands.run("offsets", "reset", "-g", other, "-t", orders, "--to", f"group:{name}", "--yes")
    assert [row["committed"] for row in commands.rows("lag", "-g", other)] == [5, 3]
    assert reset(f"group:{other}", "--yes") == [(5, 0), (3, 2)]
    with sharing(kafka, orders, name, "three") as member:
        assert [record.offset for record in take(member, 2)] == [3, 4]


@pytest.mark.both_clusters
def test_the_lag_of_a_share_group_is_unknown_until_it_has_acknowledged(
    commands: Commands, kafka: RealKafka, orders: str
) -> None:
    name = f"share-{uuid.uuid4().hex[:8]}"
    kafka.admin.configure_group(name, {"share.auto.offset.reset": "earliest"})
    with sharing(kafka, orders, name, "one") as member:
        take(member, 10)
        assert commands.rows("lag", "-g", name) == [
            {
                "topic": orders,
                "partition": number,
                "start": None,
                "end": 5,
                "lag": None,
                "client": "one",
            }
            for number in range(2)
        ]
        shown = commands.run("lag", "-g", name).out
        assert shown.endswith("total 0, unknown in 2 partitions\n")


@pytest.mark.both_clusters
def test_a_name_of_a_consumer_group_is_not_for_a_share_group(
    commands: Commands, orders: str
) -> None:
    name = f"readers-{uuid.uuid4().hex[:8]}"
    commands.run("doctor", "-g", name, "--timeout", "60s")
    reset = ("offsets", "reset", "-g", name, "-t", orders, "--to", "1", "--yes")
    commands.run(*reset)
    ran = commands.run(*reset, "--share", code=2)
    assert f"--share: {name!r} is a classic group" in ran.err
    wrong = commands.run("offsets", "delete", "-g", name, "-t", f"{orders}x", code=1)
    assert f"has no offsets of '{orders}x'; it has those of {orders}" in wrong.err
    commands.run("offsets", "delete", "-g", name, "-t", orders, "--dry-run")
    assert [row["offset"] for row in commands.rows("offsets", "show", "-g", name)] == [1, 1]
    commands.run("offsets", "delete", "-g", name, "-t", orders, "--yes")
    assert commands.run("offsets", "delete", "-g", name, "-t", orders, code=1).out == ""


@pytest.mark.both_clusters
def test_offsets_of_a_share_group_are_deleted(commands: Commands, orders: str) -> None:
    name = f"share-{uuid.uuid4().hex[:8]}"
    commands.run("doctor", "-g", name, "--timeout", "60s")
    commands.run("offsets", "reset", "-g", name, "-t", orders, "--to", "1", "--share", "--yes")
    silent = commands.run("offsets", "delete", "-g", name, "-t", orders, code=2)
    assert "use --yes" in silent.err
    commands.run("offsets", "delete", "-g", name, "-t", orders, given="y\n")
    assert commands.rows("offsets", "show", "-g", name) == []
    assert "owns nothing" in commands.run("lag", "-g", name, code=1).err


def test_a_cluster_without_share_groups(commands: Commands) -> None:
    with ServedKafka(kafka="3.9") as served:
        served.create_topic("orders", 1)
        commands.variables["TANDEM_KAFKA_BROKERS"] = served.bootstrap
        reset = ("offsets", "reset", "-g", "g", "-t", "orders", "--to", "latest", "--share")
        ran = commands.run(*reset, "--yes", code=1)
    assert "the cluster has no share groups (KIP-932); they need Kafka 4.2, and the" in ran.err


@contextmanager
def sharing(
    kafka: RealKafka, topic: str, group: str, client: str
) -> Iterator[ShareConsumer[Any, Any]]:
    """A member of a share group."""
    with ShareConsumer(
        topic,
        group_id=group,
        client_id=client,
        acknowledgement="explicit",
        bootstrap_servers=kafka.bootstrap(),
    ) as member:
        yield member


def accept(member: ShareConsumer[Any, Any]) -> None:
    """Accept what one poll returns."""
    for records in member.poll(timeout_ms=200).values():
        for record in records:
            record.accept()
    member.commit()


def take(member: ShareConsumer[Any, Any], count: int) -> list[Any]:
    """Poll until there are so many records."""
    found: list[Any] = []
    for _ in until(lambda: len(found) >= count, lambda: found):
        for records in member.poll(timeout_ms=200).values():
            found.extend(records)
    return found


def test_a_copy_is_equal(commands: Commands, kafka: RealKafka, orders: str) -> None:
    same = kafka.admin.create_topic(f"{orders}-same", 2)
    other = kafka.admin.create_topic(f"{orders}-other", 3)
    name = f"copy-{uuid.uuid4().hex[:8]}"
    assert commands.run("copy", orders, same, "-g", name).err.startswith("10 records copied")
    assert commands.run("copy", orders, same, "-g", name).err.startswith("0 records copied")
    commands.run("copy", orders, other, "--compression", "gzip")

    def content(topic: str, *left_out: str) -> list[tuple[Any, ...]]:
        rows = commands.rows("cat", "-t", topic)
        return sorted(
            tuple(str(row[key]) for key in row if key not in {"topic", *left_out}) for row in rows
        )

    assert content(same) == content(orders)
    assert content(other, "partition", "offset") == content(orders, "partition", "offset")


def test_a_record_that_cannot_be_copied_ends_the_copy(
    commands: Commands, kafka: RealKafka, orders: str
) -> None:
    """Records before it are copied and committed; the next copy begins with it."""
    copy = kafka.admin.create_topic(f"{orders}-copy", 2)
    name = f"copy-{uuid.uuid4().hex[:8]}"
    kafka.admin.produce(orders, [Record(b"", headers=[("none", None)])])
    for _ in range(2):
        ran = commands.run("copy", orders, copy, "-p", "0", "-g", name, "--rate", "50", code=1)
        assert f"{orders} 0:5 cannot be copied: kafka-python's producer writes no header" in ran.err
    assert [row["offset"] for row in commands.rows("offsets", "show", "-g", name)] == [5]


def test_a_copy_has_a_limit(commands: Commands, kafka: RealKafka, orders: str) -> None:
    slow = kafka.admin.create_topic(f"{orders}-slow", 1)
    began = time.monotonic()
    commands.run("copy", orders, slow, "--rate", "10", "--key", "key-[01]")
    assert time.monotonic() - began > 0.9
    rows = commands.rows("cat", "-t", slow)
    assert len(rows) == 7


def test_sql(commands: Commands, orders: str) -> None:
    table = f'"{orders}"'
    query = f"SELECT key, count(*) AS n FROM {table} GROUP BY key ORDER BY key"  # noqa: S608
    assert commands.rows("sql", query) == [
        {"key": "key-0", "n": 4},
        {"key": "key-1", "n": 3},
        {"key": "key-2", "n": 3},
    ]
    joined = f"SELECT count(*) n FROM {table} a JOIN {table} b USING (partition, record_offset)"  # noqa: S608
    assert commands.rows("sql", joined, "--from", "150s") == [{"n": 3}]
    wrong = commands.run("sql", f"SELECT nothing FROM {table}", code=1).err  # noqa: S608
    assert len(wrong.splitlines()) == 1
    assert 'column "nothing" not found' in wrong


def test_decoded_values(commands: Commands, orders: str, tmp_path: Path) -> None:
    require_implementation("native")
    flags = ["-s", "value=json"]
    query = f'SELECT sum(value."order") AS n FROM "{orders}"'  # noqa: S608
    assert commands.rows("sql", query, *flags) == [{"n": 45}]
    file = tmp_path / "orders.parquet"
    commands.run("cat", "-t", orders, *flags, "-O", str(file))
    values = pytest.importorskip("pyarrow.parquet").read_table(file)["value"].to_pylist()
    assert sorted(value["order"] for value in values) == [*range(10)]
    schema = tmp_path / "bytes.avsc"
    schema.write_text(json.dumps({"type": "record", "name": "R", "fields": []}), encoding="utf-8")
    ran = commands.run("cat", "-t", orders, "-s", "value=avro", "--schema", str(schema), code=1)
    assert f"the value of {orders}-" in ran.err
    assert "if it is JSON, write -s value=json" in ran.err


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_a_login_from_a_file_of_java(
    commands: Commands, kafka: RealKafka, orders: str, tmp_path: Path, listener: str
) -> None:
    """The consumer, the admin client and the producer have the same settings."""
    copy = kafka.admin.create_topic(f"{orders}-copy", 2)
    commands.variables["TANDEM_KAFKA_BROKERS"] = kafka.bootstrap(listener).replace(
        "127.0.0.1", "localhost"
    )
    file = tmp_path / "client.properties"
    login = "org.apache.kafka.common.security.scram.ScramLoginModule required"
    file.write_text(
        f"security.protocol={listener}\nsasl.mechanism=SCRAM-SHA-512\n"
        f'sasl.jaas.config={login} \\\n  username="alice" password="{PASSWORD}";\n'
        f"ssl.truststore.type=PEM\nssl.truststore.location={kafka.certificates.authority}\n"
    )
    config = ("--config", str(file))
    assert commands.run("copy", orders, copy, *config).err.startswith("10 records copied")
    assert len(commands.rows("partitions", "-t", copy, *config)) == 2
    assert isinstance(commands.rows("groups", *config), list)
    wrong = commands.run("groups", *config, "-X", "sasl.password=wrong", code=1).err
    assert len(wrong.splitlines()) == 1
    assert "SaslAuthenticationFailedError" in wrong
    assert PASSWORD not in commands.run("groups", *config, "--verbose", "--verbose").err


def test_a_port_that_refuses_fails_before_the_timeout(commands: Commands) -> None:
    """Nothing listens there; a broker that starts is waited for by programs, not by people."""
    (port,) = free_ports(1)
    ran = commands.run("topics", "-b", f"127.0.0.1:{port}", code=1)
    assert "no broker responded within 2000 ms" in ran.err
    assert "refused" in ran.err


def test_follow_prints_what_arrives(commands: Commands, kafka: RealKafka, orders: str) -> None:
    with commands.started("tail", "-t", orders, "-F", "-n", "1", "-f", "%v\\n") as lines:
        assert lines.readline() == '{"order": 9}\n'
        kafka.admin.produce(orders, [Record(b"new")])
        assert lines.readline() == "new\n"
