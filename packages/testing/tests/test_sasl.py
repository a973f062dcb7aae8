"""Logins on a simulated broker: what it rejects, and when it serves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kafka import errors

from packages.testing.tests.bare_client import Client, framed
from tandem_kafka.wire.messages import (
    HeartbeatRequest,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from tandem_kafka_testing import Call, Simulation

ILLEGAL = errors.IllegalSaslStateError.errno
REJECTED = errors.SaslAuthenticationFailedError.errno
RIGHT = b"\0ada\0secret"


@pytest.fixture
def simulation() -> Iterator[Simulation]:
    with Simulation() as created:
        created.cluster.users.update({"ada": "secret", "bob": "other"})
        yield created


def shake_hands(client: Client, mechanism: str) -> int:
    frame = client.say(SaslHandshakeRequest(mechanism=mechanism), 1)
    assert frame is not None
    return int(SaslHandshakeResponse.decode(frame[4:], version=1).error_code)


def token(data: bytes) -> Any:
    return SaslAuthenticateRequest(auth_bytes=data)


def authenticate(client: Client, data: bytes) -> int:
    return code_of(client.say(token(data), 1))


def code_of(frame: bytes | None) -> int:
    assert frame is not None
    return int(SaslAuthenticateResponse.decode(frame[4:], version=1).error_code)


def heartbeat() -> Any:
    return HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


@pytest.mark.parametrize(
    ("mechanism", "data"),
    [
        ("PLAIN", b"\xff"),
        ("PLAIN", b"ada"),
        ("PLAIN", b"bob\0ada\0secret"),
        ("SCRAM-SHA-256", b"\xff"),
        ("SCRAM-SHA-256", b"n"),
        ("SCRAM-SHA-256", b"p=tls-unique,,n=ada,r=1"),
        ("SCRAM-SHA-512", b"n,a=bob,n=ada,r=1"),
    ],
)
def test_a_token_that_is_not_valid_is_rejected(
    simulation: Simulation, mechanism: str, data: bytes
) -> None:
    client = Client(simulation)
    assert shake_hands(client, mechanism) == 0
    assert authenticate(client, data) == REJECTED
    assert client.receive() is None  # the broker hangs up


def test_without_a_mechanism_the_broker_hangs_up(simulation: Simulation) -> None:
    client = Client(simulation)
    assert shake_hands(client, "GSSAPI") == errors.UnsupportedSaslMechanismError.errno
    assert client.receive() is None
    early = Client(simulation)
    assert authenticate(early, RIGHT) == ILLEGAL
    assert early.receive() is None


@pytest.mark.parametrize("proof", [b"\xff", b"p", b"p=AAA", "p=\u00e9".encode()])
def test_a_proof_that_is_not_valid_is_rejected(simulation: Simulation, proof: bytes) -> None:
    client = Client(simulation)
    shake_hands(client, "SCRAM-SHA-256")
    frame = client.say(token(b"n,,n=ada,r=1"), 1)
    assert code_of(frame) == 0
    assert frame is not None
    challenge = SaslAuthenticateResponse.decode(frame[4:], version=1).auth_bytes
    nonce = bytes(challenge).split(b",")[0]
    assert authenticate(client, b"c=biws,%s,%s" % (nonce, proof)) == REJECTED


def test_a_client_may_name_itself_as_the_one_it_acts_for(simulation: Simulation) -> None:
    client = Client(simulation)
    shake_hands(client, "PLAIN")
    assert authenticate(client, b"ada\0ada\0secret") == 0


def test_a_connection_logs_in_once(simulation: Simulation) -> None:
    client = Client(simulation)
    shake_hands(client, "PLAIN")
    assert authenticate(client, RIGHT) == 0
    assert authenticate(client, RIGHT) == ILLEGAL
    assert shake_hands(client, "PLAIN") == ILLEGAL
    assert client.say(heartbeat(), 3) is not None, "the login stays"


def test_a_request_behind_the_login_is_served(simulation: Simulation) -> None:
    client = Client(simulation)
    shake_hands(client, "PLAIN")

    def late(call: Call) -> None:
        at_ms = simulation.clock.now_ms() + 100
        simulation.network.at(at_ms, lambda: call.respond_later(call.default()))

    simulation.cluster.script(SaslAuthenticateRequest, late)
    client.post(framed(token(RIGHT), 1))
    client.post(framed(heartbeat(), 3))
    assert code_of(client.receive()) == 0
    assert client.receive() is not None
