"""The four consumers have the same options and methods, or a reason why not."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from typing import Any

import pytest

from tandem_kafka import AsyncKafkaConsumer, AsyncShareConsumer, KafkaConsumer, ShareConsumer
from tandem_kafka.config import Config
from tandem_kafka.consumer import diagnosis
from tandem_kafka.consumer.share.options import WITHOUT_MEANING
from tandem_kafka.errors import RecordDeserializationError
from tests.simulation.sharing import sharing, take

#: What share consumers lack. They have no positions; brokers share their partitions among members;
#: and no call of theirs asks about topics.
_LACKING = {
    *("beginning_offsets", "commit_async", "commit_sync", "committed", "current_lag", "position"),
    *("end_offsets", "highwater", "offsets_for_times", "seek", "seek_to_beginning", "seek_to_end"),
    *("stop_at", "group_metadata"),
    *("assign", "assignment", "enforce_rebalance", "pause", "paused", "resume"),
    *("bootstrap", "cluster", "partitions_for_topic", "topics"),
}


def _public(owner: type) -> dict[str, list[str]]:
    found = {name: getattr(owner, name) for name in dir(owner) if not name.startswith("_")}
    return {
        name: list(inspect.signature(each).parameters) if callable(each) else []
        for name, each in found.items()
        if name != "DEFAULT_CONFIG"
    }


def test_share_consumers_have_the_methods_of_others() -> None:
    share, others = _public(ShareConsumer), _public(KafkaConsumer)
    assert others.keys() - share.keys() == _LACKING
    assert share.keys() - others.keys() == {
        *("acknowledge", "acknowledgement", "release_all", "renew_locks"),
    }


def test_a_form_for_asyncio_has_the_same_methods() -> None:
    share, tasks = _public(ShareConsumer), _public(AsyncShareConsumer)
    assert tasks.pop("start") == ["self"]
    assert tasks == share
    more = _public(AsyncKafkaConsumer).keys() ^ _public(KafkaConsumer).keys()
    assert more == {
        *("commit_async", "commit_sync", "bootstrap", "poll_arrow"),  # of threads
        *("start", "batches", "arrow_batches"),  # of asyncio
    }


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The options that were read, by anything but the options themselves."""
    names, found = {field.name for field in dataclasses.fields(Config)}, set[str]()

    def noting(self: Config, name: str) -> Any:
        if name in names:
            module = sys._getframe(1).f_globals.get("__name__", "")
            if not module.startswith(("tandem_kafka.config", "dataclasses")):
                found.add(name)
        return object.__getattribute__(self, name)

    monkeypatch.setattr(Config, "__getattribute__", noting)
    return found


def test_no_option_is_accepted_without_effect(read: set[str]) -> None:
    """What a consumer reads of its options while it works, a share consumer reads as well."""
    with sharing("options") as (simulation, start):
        consumer = simulation.consumer("orders", group_id="others", auto_offset_reset="earliest")
        next(consumer)
        consumer.poll(100)
        consumer.poll_arrow(0)
        consumer.commit()
        consumer.close()
        by_others = set(read)
        read.clear()
        share = start()
        next(share)
        take(share, 1)
        share.poll_arrow(0)
        share.commit()
        share.close()
        assert by_others - read - WITHOUT_MEANING.keys() == set()


class Reporter:
    """A reporter of metrics, as kafka-python's."""

    def __init__(self) -> None:
        self.metrics: set[str] = set()
        self.closed = False

    def init(self, metrics: list[Any]) -> None:
        self.metrics.update(each.metric_name.name for each in metrics)

    def metric_change(self, metric: Any) -> None:
        self.metrics.add(metric.metric_name.name)

    def metric_removal(self, metric: Any) -> None:
        self.metrics.discard(metric.metric_name.name)

    def close(self) -> None:
        self.closed = True


def test_reporters_hear_of_metrics() -> None:
    reporter = Reporter()
    with sharing("reporters") as (_, start):
        consumer = start(metric_reporters=[reporter])
        assert "records-in-work" in reporter.metrics
        take(consumer, 1)
        consumer.poll()
        assert "request-rate" in reporter.metrics
        consumer.close()
    assert reporter.closed


def test_a_diagnosis_says_what_a_share_consumer_does(capsys: pytest.CaptureFixture[str]) -> None:
    with sharing("diagnosis") as (_, start):
        consumer = start()
        take(consumer, 1)
        text = consumer.diagnose()
        assert "assigned partitions: 1" in text
        assert "ready: yes" in text
        diagnosis._print_all(None)
        assert f"consumer {consumer.config['client_id']!r}" in capsys.readouterr().err
        consumer.close()
        diagnosis._print_all(None)
        assert f"consumer {consumer.config['client_id']!r}" not in capsys.readouterr().err


def test_an_error_that_poll_raises_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with sharing("errors") as (_, start):
        consumer = start(value_deserializer=int)
        with pytest.raises(RecordDeserializationError):
            take(consumer, 1)
    assert any("poll() raised an error" in line for line in caplog.messages)


def test_a_closed_consumer_has_no_metrics() -> None:
    """As in kafka-python; frozen values would be exported as if it lived."""

    async def used(consumer: Any) -> None:
        async with consumer:
            assert consumer.metrics()
            await consumer.poll(1_000)
        assert consumer.metrics() == consumer.metrics(raw=True) == {}

    with sharing("closed") as (simulation, start):
        simulation.run(used(simulation.async_consumer("orders", group_id="readers")))
        consumers = [start(), simulation.consumer("orders", group_id="readers")]
        for consumer in consumers:
            consumer.poll(1_000)
            assert consumer.metrics()
            consumer.close()
            assert consumer.metrics() == consumer.metrics(raw=True) == {}
        without = simulation.consumer(metrics_enabled=False)
        without.close()
        assert without.metrics() is None


def test_a_client_id_that_two_consumers_have_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def lines() -> list[str]:
        return [line for line in caplog.messages if "client_id=" in line]

    with sharing("one name") as (simulation, start):
        first = start(client_id="one")
        first.close()
        second = start(client_id="one")
        start(client_id="two")
        assert lines() == []
        third = simulation.consumer("orders", "bills", client_id="one", group_id="readers")
        [line] = lines()
        assert line.startswith("[one] client_id='one' is also that of another consumer")
        assert line.endswith(
            "this one: group 'readers', bills, orders; the other: group 'g', orders"
        )
        start(client_id="one")
        assert len(lines()) == 1
        third.close()
        second.close()
