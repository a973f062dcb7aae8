"""What holds for all tests of this repository: which run, and the line that says what ran."""

from __future__ import annotations

import gc
import logging
import os
import platform
import threading
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import confluent_kafka
import hypothesis
import kafka as kafka_python
import pytest
from kafka.net.selector import NetworkSelector

from tandem_kafka_testing.kafka import DownloadError
from tandem_kafka_testing.kafka.jars import chosen_version, release_of
from tandem_kafka_testing.pytest_plugin import why_no_kafka
from tests.implementations import require_implementation
from tests.lost_workers import LostWorkers
from tests.process_state import ProcessState
from tests.second_run import SecondRun
from tests.shared_brokers import SharedBrokers
from tests.sources import ROOT
from tests.tier import ALL

# No test asserts how fast a machine is.
hypothesis.settings.register_profile("everyday", deadline=None, derandomize=True, max_examples=25)
hypothesis.settings.register_profile("all", deadline=None)

_BROKER = "which coordinators run the scripts that are for both"
_ALL = "also the tests that are marked `full`, and Hypothesis with new examples"
_SECOND_RUN = "run tests in real time that fail once more, alone"


_WITH_BROKER = {"integration", "parity", "spark"}
_IN_REAL_TIME = _WITH_BROKER | {"docs", "examples", "histories", "served", "verifiable_consumer"}


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--broker`: where the scripts run that a real and the simulated coordinator agree on."""
    choices = ["simulated", "real", "both"]
    parser.addoption("--broker", choices=choices, default="both", help=_BROKER)
    parser.addoption("--all", action="store_true", help=_ALL)
    parser.addoption("--second-run", action="store_true", help=_SECOND_RUN)


def pytest_configure(config: pytest.Config) -> None:
    """Choose the examples of Hypothesis, and watch the process."""
    if config.option.all:
        os.environ[ALL] = "1"
    hypothesis.settings.load_profile("all" if config.option.all else "everyday")
    config.pluginmanager.register(ProcessState())
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(SharedBrokers())
        config.pluginmanager.register(LostWorkers(_in_real_time))
    if config.option.second_run and not hasattr(config, "workerinput"):
        config.pluginmanager.register(SecondRun(config))


def pytest_report_header() -> str:
    """One line: the versions that matter for the result."""
    return (
        f"tandem-kafka on {platform.python_implementation()} {platform.python_version()}, "
        f"kafka-python {kafka_python.__version__}, "
        f"confluent-kafka {confluent_kafka.__version__}, broker {chosen_version()}"
    )


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Iterator[None]:
    """Mark what needs a real broker or real time, and leave out what is not for every day."""
    _mark(items)  # first, since `-m` chooses by marks
    yield  # then the marks of the folders
    if not config.option.all:
        full = {item for item in items if item.get_closest_marker("full")}
        config.hook.pytest_deselected(items=[*full])
        items[:] = [item for item in items if item not in full]


def _mark(items: list[pytest.Item]) -> None:
    """An old broker has no KIP-848."""
    old = release_of(chosen_version()) < (4, 0)
    for item in items:
        folder = _folder(item.path)
        if _in_real_time(item.path):
            item.add_marker(pytest.mark.real_time)
        if old and "consumer" in item.nodeid.partition("[")[2].strip("]").split("-"):
            item.add_marker(pytest.mark.skip("KIP-848 needs Kafka 4.0"))
        parameters = getattr(item, "callspec", None)
        chosen = {} if parameters is None else parameters.params
        if chosen.get("kafka", chosen.get("brokers")) in ("simulated", "served"):
            continue
        fixtures = getattr(item, "fixturenames", ())
        real = "kafka" in fixtures if folder == "spark" else "simulation" not in fixtures
        if real and folder in _WITH_BROKER:
            item.add_marker(pytest.mark.broker)


def _in_real_time(path: Path) -> bool:
    return _folder(path) in _IN_REAL_TIME


@cache
def _folder(path: Path) -> str:
    """Return the name of the folder of `tests/` that a file is in, or of its package.

    Of a package, too, `integration` are the tests with a broker.
    """
    if not path.is_relative_to(ROOT):
        return ""
    where = path.relative_to(ROOT).parts
    if where[0] == "packages":
        return "integration" if "integration" in where else where[1]
    return where[1]


_WHY_NO_KAFKA = pytest.StashKey[str]()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Download Kafka before the first test that needs it, outside of its timeout."""
    config = session.config
    needed = any(item.get_closest_marker("broker") for item in session.items)
    if needed and not config.option.collectonly:
        capture = config.pluginmanager.getplugin("capturemanager")
        with capture.global_and_fixture_disabled():
            try:
                config.stash[_WHY_NO_KAFKA] = why_no_kafka()
            except DownloadError as error:
                raise pytest.UsageError(str(error)) from None


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what needs Kafka where it cannot be had: all in one line of the summary, from here."""
    reason = item.config.stash.get(_WHY_NO_KAFKA, "")
    if reason and item.get_closest_marker("broker"):
        pytest.skip(f"not run, no test against a real broker was: {reason}")


@pytest.fixture(scope="session")
def native_extension() -> None:
    """Skips tests of what only the native extension does, such as decoding for Arrow."""
    require_implementation("native")


@pytest.fixture
def network_threads() -> Callable[[], list[str]]:
    """Names the consumers' threads that began in this test and still run.

    What a failed test left behind is its own failure, not that of every test after it.
    """
    before = set(threading.enumerate())

    def names() -> list[str]:
        began = set(threading.enumerate()) - before
        return [each.name for each in began if each.name.startswith("tandem-kafka-network")]

    return names


@pytest.fixture
def kafka_python_ends(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> Iterator[None]:
    """Ends what a constructor of kafka-python leaves behind that has failed.

    Its thread would log and lose sockets while other tests run, whenever it refreshes metadata.
    """
    started: list[NetworkSelector] = []
    start = NetworkSelector.start

    def noted(net: NetworkSelector) -> None:
        started.append(net)
        start(net)

    monkeypatch.setattr(NetworkSelector, "start", noted)
    # pytest keeps the exceptions that are logged, and their frames keep sockets.
    caplog.set_level(logging.CRITICAL, "kafka")
    yield
    for net in started:
        net.close()
    started.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
