"""Lines name their consumer, with attributes for structured logs."""

from __future__ import annotations

import ast
import logging

import pytest

from tandem_kafka.logs import ClientNames, LinesOf, client_logger
from tests.sources import ROOT, modules

log = client_logger("tandem_kafka.tests")
#: The threads of the application run these folders; `LinesOf` covers the others.
APPLICATION = ("consumer", "confluent")


def test_a_line_names_its_consumer_and_has_attributes(caplog: pytest.LogCaptureFixture) -> None:
    names = ClientNames("100%", "readers")
    names.member_id = "member-1"
    with LinesOf(names):
        log.warning("cannot use %s", "broker 1", fields={"node_id": 1})
    [record] = caplog.records
    assert record.getMessage() == "[100%] cannot use broker 1"
    assert (
        record.__dict__.items()
        >= {
            "client_id": "100%",
            "group_id": "readers",
            "member_id": "member-1",
            "node_id": 1,
            "funcName": "test_a_line_names_its_consumer_and_has_attributes",
            "module": "test_logs",
        }.items()
    )


def test_the_named_consumer_wins_over_that_of_the_block(caplog: pytest.LogCaptureFixture) -> None:
    with LinesOf(ClientNames("one")):
        log.warning("first", client=ClientNames("two"))
        with LinesOf(ClientNames("three")):
            log.warning("second")
        log.warning("third")
    log.warning("fourth")
    assert caplog.messages == ["[two] first", "[three] second", "[one] third", "fourth"]


def test_records_of_the_application_with_the_same_attributes_are_no_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    before = logging.getLogRecordFactory()

    def factory(*args: object, **kwargs: object) -> logging.LogRecord:
        record = before(*args, **kwargs)
        record.client_id = "the application's"
        return record

    logging.setLogRecordFactory(factory)
    try:
        log.warning("a line", client=ClientNames("mine"))
    finally:
        logging.setLogRecordFactory(before)
    [record] = caplog.records
    assert record.getMessage() == "[mine] a line"
    assert record.__dict__["client_id"] == "the application's"


@pytest.mark.sources
@pytest.mark.parametrize("folder", APPLICATION)
def test_lines_of_the_application_threads_say_whose_they_are(folder: str) -> None:
    package = ROOT / "tandem_kafka"
    for path in sorted((package / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("log."):
                named = {keyword.arg for keyword in node.keywords}
                assert "client" in named, f"{path.name}:{node.lineno}"


@pytest.mark.sources
def test_every_line_is_made_by_a_client_logger() -> None:
    """Others name no consumer, and print control characters; the command sets handlers."""
    plain = {
        path.relative_to(ROOT).as_posix()
        for path in modules()
        if "logging.getLogger(" in path.read_text(encoding="utf-8")
    }
    assert plain == {"packages/cli/tandem_kafka_cli/flags.py", "tandem_kafka/logs.py"}
