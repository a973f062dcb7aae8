"""The probe's page in a browser, if the machine has Chromium or Chrome."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from html import escape, unescape
from pathlib import Path

import pytest

from tandem_kafka import Health, PartitionHealth
from tandem_kafka.observability import Probe
from tandem_kafka.observability.health_page import REFRESH_S, View, page
from tandem_kafka.types import TopicPartition
from tandem_kafka_testing import simulated_consumer
from tests.waiting import wait_until

BROWSER = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chrome"))), None)
TROUBLE = "the topic 'orders' does not exist, or this client may not see it; check the name"
STUCK = "the application has paused it"
#: Writes the width of the page in a frame into the title. The page itself allows no script.
MEASURE = """<!doctype html><title></title><body style="margin: 0">
<iframe style="border: 0; width: {width}px; height: 2000px" srcdoc="{page}"></iframe>
<script>onload = () => {{ document.title =
  document.querySelector("iframe").contentDocument.documentElement.scrollWidth; }}</script>"""

pytestmark = [
    pytest.mark.real_time,
    pytest.mark.skipif(BROWSER is None, reason="no Chromium or Chrome on the PATH"),
]


class Troubled:
    """A consumer with long names, troubles, and a lag that grows."""

    def __init__(self) -> None:
        with closing(simulated_consumer(client_id="c" * 120, group_id="g" * 120)) as consumer:
            self._health = consumer.health()
        self._lag = 0

    def health(self) -> Health:
        self._lag += 1_234_567
        each = PartitionHealth(position=10**12, lag=self._lag, paused=True, stuck=STUCK)
        partitions = {TopicPartition("orders-" + "o" * 80, number): each for number in range(3)}
        return replace(self._health, partitions=partitions, troubles=(TROUBLE, "t" * 150))


@pytest.fixture
def probe() -> Iterator[Probe]:
    with Probe(Troubled(), port=0, host="127.0.0.1") as probe:
        yield probe


def command(profile: Path, *arguments: object) -> list[str]:
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    options = ["--headless=new", "--disable-gpu", f"--user-data-dir={profile}", *sandbox]
    return [str(BROWSER), *options, *map(str, arguments)]


def dom(tmp_path: Path, address: str) -> str:
    """Return the document as the browser has understood it."""
    arguments = command(tmp_path / "profile", "--dump-dom", address)
    return subprocess.run(arguments, check=True, capture_output=True, text=True, timeout=60).stdout


def test_a_browser_shows_partitions_and_troubles(probe: Probe, tmp_path: Path) -> None:
    shown = unescape(dom(tmp_path, f"http://127.0.0.1:{probe.port}/"))
    assert shown.count(f"no records: {STUCK}") == 3
    assert f"{10**12:,}" in shown
    assert f'<li class="warn">{TROUBLE}</li>' in shown


@pytest.mark.parametrize("width", [390, 1400])
def test_the_page_is_not_wider_than_the_screen(probe: Probe, tmp_path: Path, width: int) -> None:
    with urllib.request.urlopen(f"http://127.0.0.1:{probe.port}/", timeout=20) as response:
        page = escape(response.read().decode())
    frame = tmp_path / "frame.html"
    frame.write_text(MEASURE.format(width=width, page=page), encoding="utf-8")
    measured = re.search(r"<title>(\d+)</title>", dom(tmp_path, frame.as_uri()))
    assert measured is not None
    assert int(measured[1]) == width


def test_the_browser_loads_the_page_again(
    probe: Probe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[float] = []

    def noted(views: Sequence[View], now_ms: int) -> str:
        loaded.append(time.monotonic())
        return page(views, now_ms)

    monkeypatch.setattr("tandem_kafka.observability.probe_server.page", noted)
    address = f"http://127.0.0.1:{probe.port}/"
    arguments = command(tmp_path / "profile", "--remote-debugging-port=0", address)
    browser = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: len(loaded) >= 2)
    finally:
        browser.terminate()
        browser.wait(30)
    assert loaded[1] - loaded[0] >= REFRESH_S - 1
