"""A consumer says once who it is and where it reads."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tandem_kafka.version import __version__
from tandem_kafka_testing import Simulation
from tests.scenarios.numbered_records import create_topic

LOGGER = "tandem_kafka.request_managers.metadata_refresh"


@pytest.mark.parametrize(
    ("options", "ending"),
    [
        ({}, ", PLAINTEXT, no group"),
        ({"group_id": "readers"}, ", PLAINTEXT, group 'readers', group_protocol='classic'"),
        (
            {"group_id": "readers", "group_instance_id": "one", "group_protocol": "consumer"},
            ", PLAINTEXT, group 'readers' as 'one', group_protocol='consumer'",
        ),
    ],
    ids=["no group", "classic", "static"],
)
def test_the_first_contact_is_logged_once(
    caplog: pytest.LogCaptureFixture, options: dict[str, Any], ending: str
) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    with Simulation("opening") as simulation:
        create_topic(simulation, "orders", 1)
        consumer = simulation.consumer("orders", client_id="billing-1", **options)
        consumer.poll(1_000)
        simulation.sleep(600_000)  # metadata is refreshed meanwhile
        consumer.poll(1_000)
    [line] = [r.getMessage() for r in caplog.records if r.name == LOGGER]
    assert line.startswith(f"[billing-1] tandem-kafka {__version__} (")
    assert line.endswith(ending)
