"""The examples of the page about the command line: their output is that of the commands."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tandem_kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition
from tandem_kafka.cli.environment import Environment
from tandem_kafka.cli.program import COMMANDS
from tandem_kafka.testing.kafka import RealKafka
from tandem_kafka.testing.kafka.admin import Record
from tests.commands import Run, runner
from tests.docs.pages import blocks

PAGE = "docs/how-to/command-line.md"
MINUTE_MS = 60_000
#: What differs from run to run.
CHANGING = {
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z": "TIME",
    r"\b1[78]\d{11}\b": "MILLISECONDS",
    r"\d+(ms|s|m) ago": "AGE",
    r"\d+ B\b": "SIZE",
    r"(epoch|Stable +1|127\.0\.0\.1) +\d+": r"\1 EPOCH",
    r"(?<![\w-])[\w-]{22}(?= *$)": "ID",
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
        deadline = time.monotonic() + 30
        while len(billing.assignment()) < 2 and time.monotonic() < deadline:
            billing.poll(100)
        billing.commit({partitions[0]: OffsetAndMetadata(3, "", -1)})
        billing.commit({partitions[1]: OffsetAndMetadata(1, "", -1)})
        yield kafka


def unchanging(text: str) -> list[str]:
    for pattern, word in CHANGING.items():
        text = re.sub(pattern, word, text, flags=re.MULTILINE)
    return [line.rstrip() for line in text.strip().splitlines()]


@pytest.mark.broker
def test_the_examples_print_what_the_page_shows(
    shop: RealKafka,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    variables = {"TANDEM_KAFKA_BROKERS": shop.bootstrap(), "HOME": "/nowhere"}
    examples = 0
    with runner(Environment(variables=variables), capsys) as run:
        for block in blocks(PAGE, "console"):
            for example in block.code.removeprefix("$ ").split("\n$ "):
                _check(run, f"{block.page}:{block.line}", example)
                examples += 1
    assert examples > 10


def _check(run: Run, place: str, example: str) -> None:
    line, _, shown = example.partition("\n")
    name, *arguments = shlex.split(line)
    assert name == "tandem-kafka"
    ran = run(*arguments)
    printed = ran.err + ran.out
    assert unchanging(printed) == unchanging(shown), f"{place}: {line}\n{printed}"


@pytest.mark.sources
def test_every_command_is_on_the_page() -> None:
    text = "\n".join(block.code for block in blocks(PAGE, "console", "sh"))
    assert [name for name in COMMANDS if f"tandem-kafka {name}" not in text] == []
