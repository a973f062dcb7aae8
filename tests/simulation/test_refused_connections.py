"""Error codes of ApiVersions and of logins are not taken for responses to other requests."""

from __future__ import annotations

from typing import Any

import pytest

from tandem_kafka import ConsumerRebalanceListener
from tandem_kafka.errors import KafkaError, SaslAuthenticationFailedError
from tandem_kafka.wire.messages import (
    ApiVersionsResponse,
    SaslAuthenticateResponse,
    SaslHandshakeResponse,
)
from tandem_kafka_testing import Simulation
from tests.scenarios.numbered_records import create_topic
from tests.simulation.changing import changing
from tests.simulation.test_mixed_answers import FIRST, produce, read

_LOGIN = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_plain_username": "ada",
    "sasl_plain_password": "secret",
}


class _Lost(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self) -> None:
        self.count = 0

    def on_partitions_lost(self, lost: Any) -> None:  # noqa: ARG002
        self.count += 1

    def on_partitions_assigned(self, assigned: Any) -> None:
        pass

    def on_partitions_revoked(self, revoked: Any) -> None:
        pass


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize(
    "response", [ApiVersionsResponse, SaslHandshakeResponse, SaslAuthenticateResponse]
)
@pytest.mark.parametrize(
    "code",
    [
        *(22, 25, 110),  # a member loses its partitions
        *(42, 82),  # a membership ends
        29,  # a topic may not be read
        35,  # a member changes to the classic protocol
    ],
)
def test_a_refused_connection_leaves_the_membership(
    protocol: str, response: Any, code: int
) -> None:
    """FENCED_INSTANCE_ID of a login had ended it, and UNKNOWN_MEMBER_ID had lost its partitions."""
    with Simulation("refused", brokers=2) as simulation:
        simulation.cluster.users["ada"] = "secret"
        simulation.cluster.configure_group("g", session_timeout_ms=45_000)
        create_topic(simulation, "orders", 1)
        produce(simulation, FIRST)
        consumer = simulation.consumer(
            group_id="g", group_protocol=protocol, auto_offset_reset="earliest", **_LOGIN
        )
        lost = _Lost()
        consumer.subscribe(["orders"], listener=lost)
        assert read(simulation, consumer, 5)
        member = consumer.group_metadata().member_id
        raised: list[KafkaError] = []
        with changing(simulation, response, lambda _: lambda it: setattr(it, "error_code", code)):
            for broker in simulation.cluster.brokers.values():
                simulation.network.cut(broker.address)
            end_ms = simulation.clock.now_ms() + 8_000
            while simulation.clock.now_ms() < end_ms:
                try:
                    consumer.poll(500)
                except KafkaError as error:
                    raised.append(error)
                # It had been ready now and then while the bootstrap servers were asked in turn.
                if simulation.clock.now_ms() > end_ms - 6_000:
                    assert not consumer.health().ready
            health = consumer.health()
            assert health.alive, health.not_alive
            assert any("can be used" in each for each in health.not_ready), health.not_ready
            reason = "rejected ApiVersions" if response is ApiVersionsResponse else "SASL PLAIN"
            assert code == 35 or reason in health.not_ready[0]
        if response is not ApiVersionsResponse:
            assert raised
            assert {type(each) for each in raised} == {SaslAuthenticationFailedError}
        assert read(simulation, consumer, 3)[FIRST] > 10
        assert consumer.health().ready
        assert not lost.count
        assert consumer.group_metadata().member_id == member
        assert consumer._core.engine.group.fatal is None
