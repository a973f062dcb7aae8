from __future__ import annotations

import socket
from typing import Any

import pytest

from tandem_kafka.errors import KafkaConnectionError
from tandem_kafka.network.offloading import Offloading
from tandem_kafka.network.resolver import Resolver
from tandem_kafka.network.transport import ServerAddress
from tests.unit.network.scripted import ScriptedDriver

pytestmark = pytest.mark.real_time


@pytest.fixture
def driver() -> ScriptedDriver:
    return ScriptedDriver()


@pytest.fixture
def wakeups() -> list[None]:
    return []


@pytest.fixture
def offloading(driver: ScriptedDriver, wakeups: list[None]) -> Offloading:
    return Offloading(driver, lambda: wakeups.append(None))


def found(*ips: str) -> list[Any]:
    return [(socket.AF_INET6 if ":" in ip else socket.AF_INET, 1, 6, "", (ip, 9092)) for ip in ips]


@pytest.mark.parametrize(
    ("host", "ip"), [("10.0.0.1", "10.0.0.1"), ("[::1]", "::1"), ("::1", "::1")]
)
def test_numeric_hosts_need_no_lookup(
    offloading: Offloading, driver: ScriptedDriver, host: str, ip: str
) -> None:
    got: list[Any] = []
    Resolver(offloading).resolve(host, 9092, got.append)
    assert got == [[ServerAddress(host, ip, 9092)]]
    assert driver.tasks == []


def test_addresses_are_unique_and_in_the_resolvers_order(
    offloading: Offloading, driver: ScriptedDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda *_, **__: found("2001:db8::1", "10.0.0.1", "2001:db8::1")
    )
    got: list[Any] = []
    Resolver(offloading).resolve("kafka", 9092, got.append)
    driver.run()
    assert got == []  # only on the network thread
    assert offloading.deliver()
    assert [address.ip for address in got[0]] == ["2001:db8::1", "10.0.0.1"]
    assert {address.host for address in got[0]} == {"kafka"}
    assert not offloading.deliver()


def test_callers_for_one_name_share_a_lookup(
    offloading: Offloading, driver: ScriptedDriver, wakeups: list[None]
) -> None:
    resolver = Resolver(offloading)
    first: list[Any] = []
    second: list[Any] = []
    resolver.resolve("kafka", 9092, first.append)
    resolver.resolve("kafka", 9092, second.append)
    assert len(driver.tasks) == 1
    driver.run([ServerAddress("kafka", "10.0.0.1", 9092)])
    assert len(wakeups) == 1
    offloading.deliver()
    assert first == second
    assert first[0] is not second[0]  # each caller has its own list


def test_failures_name_the_host(offloading: Offloading, driver: ScriptedDriver) -> None:
    got: list[Any] = []
    resolver = Resolver(offloading)
    resolver.resolve("kafka", 9092, got.append)
    driver.run(socket.gaierror(-2, "Name or service not known"))
    offloading.deliver()
    resolver.resolve("kafka", 9092, got.append)
    driver.run([])
    offloading.deliver()
    assert all(isinstance(error, KafkaConnectionError) for error in got)
    assert "cannot resolve kafka (port 9092)" in str(got[0])
    assert "Name or service not known" in str(got[0])
    assert "no address" in str(got[1])


def test_canonical_names_for_bootstrap_servers(
    offloading: Offloading, driver: ScriptedDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def name_of(address: tuple[str, int], _flags: int) -> tuple[str, str]:
        if address[0] == "10.0.0.2":
            raise socket.gaierror(-2, "unknown")
        return "one.kafka.example", "9092"

    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found("10.0.0.1", "10.0.0.2"))
    monkeypatch.setattr(socket, "getnameinfo", name_of)
    got: list[Any] = []
    Resolver(offloading).resolve("kafka", 9092, got.append, canonical=True)
    driver.run()
    offloading.deliver()
    assert [address.host for address in got[0]] == ["one.kafka.example", "kafka"]
