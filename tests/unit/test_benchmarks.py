"""The evaluation of figures, sampled stacks and bytes in the benchmarks."""

from __future__ import annotations

import struct

import pytest

from benchmarks.aio.plan import AIO_MEASURES
from benchmarks.bars import BARS, verdicts
from benchmarks.options.plan import OPTION_MEASURES
from benchmarks.plan import MEASURES
from benchmarks.profile import threads_of
from benchmarks.readers.catalogue import CATALOGUE
from benchmarks.readers.drain import _ends, _request
from benchmarks.start.plan import START_MEASURES
from benchmarks.workers.plan import WORKERS_MEASURES

_ALL = (*MEASURES, *AIO_MEASURES, *START_MEASURES)


def verdict_texts(measure: str, **medians: dict[str, float]) -> list[str]:
    by_reader = {name.replace("_", "-"): figures for name, figures in medians.items()}
    return [verdict.text() for verdict in verdicts(measure, by_reader)]


def test_a_bar_is_a_factor_of_another_result() -> None:
    rates = {"records_per_s": 310.0}, {"records_per_s": 100.0}
    assert verdict_texts("tls", tandem=rates[0], confluent_tuned=rates[1]) == [
        "tandem-kafka: records/s at least 1x confluent-kafka, tuned: 3.10x, met"
    ]
    assert verdict_texts("tls", tandem=rates[1], java=rates[0]) == [
        "tandem-kafka: records/s at least 1.5x Java client: 0.32x, MISSED"
    ]


def test_a_bar_can_be_an_upper_limit() -> None:
    assert verdict_texts("many-idle", tandem={"cpu_percent": 2.5}) == [
        "tandem-kafka: at most 3 % of a core: 2.5 % of a core, met"
    ]
    assert verdict_texts("memory", tandem={"above_idle_mb": 300.0}) == [
        "tandem-kafka: at most 124 MiB above idle: 300 MiB above idle, MISSED"
    ]


def test_a_missing_measurement_has_no_verdict() -> None:
    assert verdict_texts("tls", tandem={"records_per_s": 1.0}) == []
    assert verdict_texts("tls", java={"records_per_s": 1.0}) == []


@pytest.mark.parametrize("bar", BARS, ids=lambda bar: f"{bar.measure}: {bar.text()}")
def test_both_readers_of_a_bar_are_measured(bar) -> None:
    readers = {measure.name: measure.readers for measure in _ALL}[bar.measure]
    assert {bar.reader, bar.other or bar.reader} <= set(readers)


def test_measures_name_existing_readers() -> None:
    for measure in (*_ALL, *OPTION_MEASURES, *WORKERS_MEASURES):
        assert set(measure.readers) <= set(CATALOGUE)


def test_stacks_are_summed_by_thread() -> None:
    threads = threads_of(
        [
            "thread (1): main;outer (a.py:1);inner (a.py:2) 3",
            "thread (1): main;outer (a.py:1) 2",
            "thread (2): network;poll (b.py:1);epoll::h0123456789abcdef (lib.so) 4",
            "thread (1): main;_find_and_load (<frozen>);exec (c.py:1) 9",
            "thread (1): main;outer (a.py:1);outer (a.py:1) 1",
        ]
    )
    assert {name: thread.samples for name, thread in threads.items()} == {"main": 6, "network": 4}
    main = threads["main"]
    assert (main.inside["inner (a.py:2)"], main.inside["outer (a.py:1)"]) == (3, 3)
    assert (main.within["inner (a.py:2)"], main.within["outer (a.py:1)"]) == (3, 6)
    assert threads["network"].inside == {"epoll (lib.so)": 4}


def batch(base: int, last: int) -> bytes:
    body = struct.pack(">iBIHi", 0, 2, 0, 0, last) + bytes(34)
    return struct.pack(">qi", base, len(body)) + body


def response(*partitions: tuple[int, int, bytes]) -> memoryview:
    verdicts = b"".join(
        struct.pack(">ihqqqiii", number, error, 9, 9, 0, 0, -1, len(records)) + records
        for number, error, records in partitions
    )
    head = struct.pack(">iihiih", 1, 0, 0, 0, 1, 5) + b"topic"
    return memoryview(head + struct.pack(">i", len(partitions)) + verdicts)


def test_the_drain_finds_the_end_of_whole_batches() -> None:
    two = batch(0, 4) + batch(5, 1)
    found = _ends(response((0, 0, two), (1, 0, b""), (2, 0, two[:-1]), (3, 0, batch(0, 0)[:20])))
    assert dict(found) == {0: 7, 2: 5}


def test_the_drain_stops_at_an_error() -> None:
    with pytest.raises(RuntimeError, match="error 6"):
        list(_ends(response((0, 6, b""))))


def test_the_length_of_the_drains_request_is_right() -> None:
    request = _request("topic", {0: 1, 1: 2})
    assert struct.unpack_from(">i", request) == (len(request) - 4,)
