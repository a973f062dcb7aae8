"""The pages with commands: examples with the output of the commands, and all options."""

from __future__ import annotations

import re
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from packages.cli.tests.commands import Run, runner
from tandem_kafka import KafkaConsumer, OffsetAndMetadata, ShareConsumer, TopicPartition
from tandem_kafka_cli.administration import Administration
from tandem_kafka_cli.environment import Environment
from tandem_kafka_cli.program import COMMANDS
from tandem_kafka_testing.kafka import RealKafka
from tandem_kafka_testing.kafka.admin import Record
from tests.docs.pages import blocks
from tests.waiting import until

PAGE = "docs/how-to/command-line.md"
RUNBOOK = "docs/how-to/lag-grows.md"
QUEUES = "docs/how-to/queues.md"
#: A page has more examples than this.
LEAST = {PAGE: 10, RUNBOOK: 4, QUEUES: 3}
MINUTE_MS = 60_000
#: The runbook: records of each partition, its committed offsets, and the record that is broken.
RECORDS = 1_000
COMMITTED = (1_000, 1_000, 385, 412)
BROKEN = (3, 412)
#: What differs from run to run.
CHANGING = {
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z": "TIME",
    r"\b1[78]\d{11}\b": "MILLISECONDS",
    r"\d+(ms|s|m) ago": "AGE",
    r"[\d.]+ k?B\b": "SIZE",
    r"(epoch|Stable +1|127\.0\.0\.1) +\d+": r"\1 EPOCH",
    r"(?<![\w-])[\w-]{22}(?= *$)": "ID",
    r"(billing-\d)-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}": r"\1-ID",
    " +": " ",
}


@pytest.fixture(scope="module")
def shop(kafka: RealKafka) -> Iterator[RealKafka]:
    """Orders a minute apart, a group with a member, and one without."""
    for topic in ("shop-orders", "shop-copy"):
        kafka.admin.create_topic(topic, 2)
    first_ms = int(time.time() * 1000) - 9 * MINUTE_MS
    records = [
        Record(
            b'{"order": %d, "amount": %d.5}' % (number, 10 * number),
            b"customer-%d" % (number % 3),
            number % 2,
            first_ms + number * MINUTE_MS,
            [("trace", b"t-%d" % number)],
        )
        for number in range(10)
    ]
    kafka.admin.produce("shop-orders", records)
    options = {"bootstrap_servers": kafka.bootstrap(), "enable_auto_commit": False}
    partitions = [TopicPartition("shop-orders", number) for number in range(2)]
    with KafkaConsumer(group_id="shop-reports", **options) as reports:
        reports.commit({tp: OffsetAndMetadata(5, "", -1) for tp in partitions})
    with KafkaConsumer(
        "shop-orders",
        group_id="shop-billing",
        group_protocol="consumer",
        client_id="billing",
        auto_offset_reset="earliest",
        **options,
    ) as billing:
        for _ in until(lambda: len(billing.assignment()) == 2):
            billing.poll(100)
        billing.commit({partitions[0]: OffsetAndMetadata(3, "", -1)})
        billing.commit({partitions[1]: OffsetAndMetadata(1, "", -1)})
        yield kafka


@pytest.fixture(scope="module")
def billing(kafka: RealKafka) -> Iterator[RealKafka]:
    """Orders, and a group of two members, of which the second is behind."""
    kafka.admin.create_topic("orders", 4)
    first_ms = int(time.time() * 1000) - 9 * MINUTE_MS
    records = [
        Record(
            b'{"order": %d, "amo' % number
            if divmod(number, 4)[::-1] == BROKEN
            else b'{"order": %d, "amount": 7}' % number,
            b"customer-%d" % (number % 3),
            number % 4,
            first_ms + number * 100,
            [],
        )
        for number in range(4 * RECORDS)
    ]
    kafka.admin.produce("orders", records)
    with ExitStack() as members:
        first, second = (
            members.enter_context(
                KafkaConsumer(
                    "orders",
                    bootstrap_servers=kafka.bootstrap(),
                    group_id="billing",
                    group_protocol="classic",
                    client_id=name,
                    enable_auto_commit=False,
                )
            )
            for name in ("billing-1", "billing-2")
        )
        for _ in until(lambda: {len(each.assignment()) for each in (first, second)} == {2}):
            first.poll(100)
            second.poll(100)
        for member in (first, second):
            member.commit(
                {
                    tp: OffsetAndMetadata(COMMITTED[tp.partition], "", -1)
                    for tp in member.assignment()
                }
            )
        yield kafka


@pytest.fixture(scope="module")
def jpegs(kafka: RealKafka) -> Iterator[RealKafka]:
    """Photos, and a share group of two members, of which one has accepted the first four."""
    kafka.admin.create_topic("photos", 1)
    kafka.admin.produce("photos", [Record(b"photo")] * 10)
    kafka.admin.configure_group("jpegs", {"share.auto.offset.reset": "earliest"})
    with ExitStack() as members:
        first, second = (
            members.enter_context(
                ShareConsumer(
                    "photos",
                    bootstrap_servers=kafka.bootstrap(),
                    group_id="jpegs",
                    client_id=name,
                    acknowledgement="explicit",
                )
            )
            for name in ("resize-1", "resize-2")
        )
        administration = Administration({"bootstrap_servers": kafka.bootstrap()})
        members.callback(administration.close)

        def sharing() -> int:
            return sum(len(each.assigned) for each in administration.share_group("jpegs").members)

        taken: list[object] = []
        for _ in until(lambda: len(taken) >= 10):
            found = [each for records in first.poll(100).values() for each in records]
            taken.extend(found)
            for record in found:
                if record.offset < 4:
                    record.accept()
            first.commit()
            for record in found:
                if record.offset >= 4:
                    record.release()
            first.commit()
        for _ in until(lambda: sharing() >= 2):
            second.poll(100)
        yield kafka


def unchanging(text: str) -> list[str]:
    for pattern, word in CHANGING.items():
        text = re.sub(pattern, word, text, flags=re.MULTILINE)
    return [line.rstrip() for line in text.strip().splitlines()]


@pytest.mark.full("starts brokers and members")
@pytest.mark.broker
@pytest.mark.parametrize(
    ("page", "world"), [(PAGE, "shop"), (RUNBOOK, "billing"), (QUEUES, "jpegs")]
)
def test_the_examples_print_what_the_page_shows(
    page: str,
    world: str,
    request: pytest.FixtureRequest,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kafka: RealKafka = request.getfixturevalue(world)
    monkeypatch.chdir(tmp_path)
    variables = {"TANDEM_KAFKA_BROKERS": kafka.bootstrap(), "HOME": "/nowhere"}
    examples = 0
    with runner(Environment(variables=variables), capsys) as run:
        for block in blocks(page, "console"):
            for example in block.code.removeprefix("$ ").split("\n$ "):
                _check(run, f"{block.page}:{block.line}", example)
                examples += 1
    assert examples > LEAST[page]


def _check(run: Run, place: str, example: str) -> None:
    line, _, shown = example.partition("\n")
    command, _, lines = line.partition(" | head -n ")
    name, *arguments = shlex.split(command)
    assert name == "tandem-kafka"
    ran = run(*arguments)
    printed = unchanging(ran.err + ran.out)[: int(lines or sys.maxsize)]
    assert printed == unchanging(shown), f"{place}: {line}\n{ran.err + ran.out}"


@pytest.mark.sources
def test_every_command_is_on_the_page() -> None:
    text = "\n".join(block.code for block in blocks(PAGE, "console", "sh"))
    assert [name for name in COMMANDS if f"tandem-kafka {name}" not in text] == []
