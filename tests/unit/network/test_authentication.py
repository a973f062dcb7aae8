from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Any

import pytest
from kafka.errors import UnsupportedSaslMechanismError
from kafka.net.sasl import SASL_MECHANISMS
from kafka.net.sasl.abc import SaslMechanism
from kafka.net.sasl.oauth import AbstractTokenProvider

from tandem_kafka.errors import (
    KafkaConnectionError,
    SaslAuthenticationFailedError,
    UnsupportedVersionError,
)
from tandem_kafka.network.offloading import MAX_CONCURRENT
from tandem_kafka.network.oidc import OidcTokens
from tandem_kafka.network.request import UnsentRequest
from tandem_kafka.wire.messages import SaslAuthenticateResponse, SaslHandshakeResponse
from tests.unit.network.scripted import (
    VERSIONS,
    Network,
    Sent,
    api_versions,
    error_of,
    metadata_response,
)

PLAIN: dict[str, Any] = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_plain_username": "alice",
    "sasl_plain_password": "wonderland",
}


def handshake_response(*mechanisms: str, error_code: int = 0) -> Any:
    return SaslHandshakeResponse(error_code=error_code, mechanisms=list(mechanisms))


def token_response(
    token: bytes = b"", error_code: int = 0, message: str | None = None, lifetime: int = 0
) -> Any:
    return SaslAuthenticateResponse(
        error_code=error_code,
        error_message=message,
        auth_bytes=token,
        session_lifetime_ms=lifetime,
    )


def token_of(sent: Sent) -> bytes:
    """The token of a SaslAuthenticate v2 request, after header, tags and compact length."""
    assert (sent.api_key, sent.version) == (36, 2)
    body = sent.frame[4 + 8 + 2 + len("test") + 1 :]
    size, start = body[0] & 0x7F, 1
    if body[0] & 0x80:
        size, start = size | body[1] << 7, 2
    return body[start : start + size - 1]


def begin(network: Network) -> Sent:
    """Connect and negotiate; return the handshake."""
    network.iterate()
    number = max(network.transport.addresses)
    network.open(number)
    (asked,) = network.transport.take_sent()
    network.respond(asked, api_versions())
    (handshake,) = network.transport.take_sent()
    assert (handshake.api_key, handshake.version) == (17, 1)
    return handshake


def log_in(network: Network, mechanism: str) -> tuple[UnsentRequest, list[Sent]]:
    """Let a request begin a login; return it and what follows the handshake."""
    unsent = network.request()
    network.respond(begin(network), handshake_response(mechanism))
    return unsent, network.transport.take_sent()


def log_in_with_token(network: Network) -> tuple[UnsentRequest, list[Sent]]:
    """The same, with a token of the provider on another thread."""
    unsent, sent = log_in(network, "OAUTHBEARER")
    assert sent == []
    network.driver.run()
    network.iterate()
    return unsent, network.transport.take_sent()


def test_plain() -> None:
    network = Network(**PLAIN)
    unsent = network.request()
    handshake = begin(network)
    assert handshake.frame.endswith(b"PLAIN")
    network.respond(handshake, handshake_response("PLAIN"))
    (token,) = network.transport.take_sent()
    assert token_of(token) == b"alice\0alice\0wonderland"
    network.respond(token, token_response())
    network.iterate()
    (sent,) = network.transport.take_sent()
    network.respond(sent, metadata_response())
    assert unsent.future.error is None


def test_a_wrong_password_has_the_brokers_message(caplog: pytest.LogCaptureFixture) -> None:
    network = Network(**PLAIN)
    to_node, to_any = network.request(), network.request(None)
    network.respond(begin(network), handshake_response("PLAIN"))
    (token,) = network.transport.take_sent()
    network.respond(token, token_response(error_code=58, message="Invalid credentials"))
    for unsent in (to_node, to_any):
        assert isinstance(error_of(unsent), SaslAuthenticationFailedError)
        advice = "Invalid credentials; check sasl_plain_username='alice' and its password"
        assert advice in str(error_of(unsent))
    assert network.transport.open == set()
    assert "wonderland" not in caplog.text
    network.request()
    network.iterate(after_ms=200)
    assert len(network.transport.open) == 1  # it is retried: the password may be corrected


def test_a_disabled_mechanism_is_reported_with_the_enabled_ones() -> None:
    network = Network(**PLAIN)
    unsent = network.request()
    network.respond(begin(network), handshake_response("GSSAPI", "SCRAM-SHA-512", error_code=33))
    assert isinstance(error_of(unsent), UnsupportedSaslMechanismError)
    assert "enabled: GSSAPI, SCRAM-SHA-512" in str(error_of(unsent))


def test_a_broker_without_sasl_authenticate_is_an_error() -> None:
    network = Network(**PLAIN)
    unsent = network.request()
    network.iterate()
    network.open(1)
    (asked,) = network.transport.take_sent()
    network.respond(asked, api_versions({**VERSIONS, 17: (0, 0)}))
    assert isinstance(error_of(unsent), UnsupportedVersionError)


def scram_server(
    mechanism: str,
    password: bytes,
    first: bytes,
    salt: bytes = b"salt",
    iterations: bytes = b"4096",
) -> tuple[bytes, Any]:
    """The server's first message, and a function that checks the proof and signs."""
    algorithm = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}[mechanism]
    bare = first.removeprefix(b"n,,")
    nonce = dict(part.split(b"=", 1) for part in bare.split(b","))[b"r"] + b"server"
    response = b"r=" + nonce + b",s=" + base64.b64encode(salt) + b",i=" + iterations

    def finish(final: bytes) -> bytes:
        without_proof, _, proof = final.rpartition(b",p=")
        message = bare + b"," + response + b"," + without_proof
        salted = hashlib.pbkdf2_hmac(algorithm, password, salt, int(iterations))

        def sign(key: bytes, data: bytes) -> bytes:
            return hmac.new(key, data, algorithm).digest()

        client_key = sign(salted, b"Client Key")
        stored = hashlib.new(algorithm, client_key).digest()
        signature = sign(stored, message)
        expected = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        assert base64.b64decode(proof) == expected
        return b"v=" + base64.b64encode(sign(sign(salted, b"Server Key"), message))

    return response, finish


@pytest.mark.parametrize(
    ("mechanism", "user", "sent_name"),
    [
        ("SCRAM-SHA-256", "alice", b"alice"),
        ("SCRAM-SHA-512", "a=b,c", b"a=3Db=2Cc"),  # RFC 5802, 5.1
    ],
)
def test_scram(mechanism: str, user: str, sent_name: bytes) -> None:
    network = Network(**PLAIN | {"sasl_mechanism": mechanism, "sasl_plain_username": user})
    _, (first,) = log_in(network, mechanism)
    assert token_of(first).startswith(b"n,,n=" + sent_name + b",r=")
    response, finish = scram_server(mechanism, b"wonderland", token_of(first))
    network.respond(first, token_response(response))
    (final,) = network.transport.take_sent()
    network.respond(final, token_response(finish(token_of(final))))
    network.iterate()
    (sent,) = network.transport.take_sent()
    assert sent.api_key == 3


@pytest.mark.parametrize(
    ("challenge", "told"),
    [
        ({"iterations": b"4095"}, "asks for 4095 iterations, and at least 4096"),
        ({"iterations": b"1"}, "asks for 1 iterations"),
        ({"iterations": b"4096,i=1"}, "asks for 1 iterations"),
        ({"iterations": b"+4096"}, "no salt and number of iterations"),
        ({"iterations": b"-1"}, "no salt and number of iterations"),
        ({"salt": b""}, "no salt and number of iterations"),
        ({"iterations": b"4096,s=!!!!"}, "no salt and number of iterations"),
        ({"iterations": b"9" * 5_000}, "too large"),
    ],
)
def test_scram_sends_no_proof_that_tells_the_password(challenge: dict[str, Any], told: str) -> None:
    network = Network(**{**PLAIN, "sasl_mechanism": "SCRAM-SHA-256"})
    unsent, (first,) = log_in(network, "SCRAM-SHA-256")
    response, _ = scram_server("SCRAM-SHA-256", b"wonderland", token_of(first), **challenge)
    network.respond(first, token_response(response))
    while network.driver.tasks:
        network.driver.run()
        network.iterate()
    assert network.transport.take_sent() == []
    assert isinstance(error_of(unsent), SaslAuthenticationFailedError)
    assert told in str(error_of(unsent))


def test_scram_with_many_iterations_is_computed_on_another_thread() -> None:
    network = Network(**{**PLAIN, "sasl_mechanism": "SCRAM-SHA-256"})
    _, (first,) = log_in(network, "SCRAM-SHA-256")
    response, finish = scram_server(
        "SCRAM-SHA-256", b"wonderland", token_of(first), iterations=b"16385"
    )
    network.respond(first, token_response(response))
    assert network.transport.take_sent() == []
    network.driver.run()
    network.iterate()
    (final,) = network.transport.take_sent()
    assert finish(token_of(final))


def test_scram_detects_a_server_that_does_not_know_the_password() -> None:
    network = Network(**{**PLAIN, "sasl_mechanism": "SCRAM-SHA-256"})
    unsent, (first,) = log_in(network, "SCRAM-SHA-256")
    response, _ = scram_server("SCRAM-SHA-256", b"wonderland", token_of(first))
    network.respond(first, token_response(response))
    (final,) = network.transport.take_sent()
    network.respond(final, token_response(b"v=" + base64.b64encode(b"guess")))
    assert isinstance(error_of(unsent), SaslAuthenticationFailedError)
    assert "wrong signature" in str(error_of(unsent))


class Tokens(AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, token: object, extensions: object = None) -> None:
        self._token = token
        self._extensions = {} if extensions is None else extensions
        self.calls = 0

    def token(self) -> object:
        self.calls += 1
        if isinstance(self._token, Exception):
            raise self._token
        return self._token

    def extensions(self) -> object:
        return self._extensions


class OnlyTokens:
    """Not a subclass of kafka-python's class."""

    def token(self) -> str:
        return "secret"


def oauth(provider: object) -> Network:
    return Network(
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=provider,
        socket_connection_setup_timeout_ms=1000,
    )


@pytest.mark.parametrize(
    ("provider", "sent"),
    [
        (Tokens("secret"), b"n,,\x01auth=Bearer secret\x01\x01"),
        (Tokens("secret", {"a": "b"}), b"n,,\x01auth=Bearer secret\x01a=b\x01\x01"),
        (OnlyTokens(), b"n,,\x01auth=Bearer secret\x01\x01"),
    ],
    ids=["token", "extensions", "duck"],
)
def test_a_token_provider_runs_on_another_thread(provider: object, sent: bytes) -> None:
    network = oauth(provider)
    assert log_in(network, "OAUTHBEARER")[1] == []
    assert len(network.driver.tasks) == 1
    network.driver.run()
    assert network.transport.wakeups == 1
    network.iterate()
    (token,) = network.transport.take_sent()
    assert token_of(token) == sent
    network.respond(token, token_response())
    assert network.driver.tasks == [], "no other step uses a thread"
    network.iterate()
    network.iterate()
    (request,) = network.transport.take_sent()
    assert request.api_key == 3


def test_a_failing_token_provider_is_an_authentication_failure() -> None:
    network = oauth(Tokens(OSError("the token server is down")))
    unsent, _ = log_in_with_token(network)
    assert isinstance(error_of(unsent), SaslAuthenticationFailedError)
    assert "OSError: the token server is down" in str(error_of(unsent))


def test_a_rejected_token_of_oidc_is_discarded() -> None:
    class Rejected(OidcTokens):
        discarded = 0

        def __init__(self) -> None:
            pass

        def token(self) -> str:
            return "secret"

        def extensions(self) -> dict[str, str]:
            return {}

        def discard(self) -> None:
            self.discarded += 1

    tokens = Rejected()
    network = oauth(tokens)
    _, (token,) = log_in_with_token(network)
    assert tokens.discarded == 0
    network.respond(token, token_response(error_code=58, message="expired"))
    assert tokens.discarded == 1


@pytest.mark.parametrize(
    ("provider", "message"),
    [
        (Tokens(None), "token() must return a non-empty str, but returned NoneType"),
        (Tokens(b"t0ken"), "token() must return a non-empty str, but returned bytes"),
        (Tokens(""), "token() must return a non-empty str, but returned an empty one"),
        (Tokens("t0ken", [1]), "extensions() must return a mapping of str to str, but returned "),
    ],
    ids=["None", "bytes", "empty", "extensions"],
)
def test_the_result_of_a_token_provider_is_checked(provider: object, message: str) -> None:
    network = oauth(provider)
    unsent, _ = log_in_with_token(network)
    assert isinstance(error_of(unsent), SaslAuthenticationFailedError)
    assert f"sasl_oauth_token_provider: {message}" in str(error_of(unsent))
    assert "t0ken" not in str(error_of(unsent))


def test_a_hanging_token_provider_is_bounded() -> None:
    network = oauth(Tokens("secret"))
    unsent, _ = log_in(network, "OAUTHBEARER")
    network.iterate(after_ms=1200)
    assert isinstance(error_of(unsent), KafkaConnectionError)
    assert "authenticating" in str(error_of(unsent))
    network.driver.run()  # too late: no connection waits for it
    network.iterate()


def give_up(network: Network) -> None:
    """Let the setup of a connection time out, and wait for its backoff."""
    network.iterate(after_ms=60_000)
    network.iterate(after_ms=60_000)


def test_connections_that_wait_for_a_token_share_one_call() -> None:
    """This holds for any number of attempts to connect while the provider hangs."""
    provider = Tokens("secret")
    network = oauth(provider)
    for _ in range(20):
        log_in(network, "OAUTHBEARER")
        give_up(network)
    assert len(network.driver.tasks) == 1
    log_in(network, "OAUTHBEARER")
    assert len(network.driver.tasks) == 1
    network.driver.run()
    network.iterate()
    (token,) = network.transport.take_sent()
    assert token_of(token) == b"n,,\x01auth=Bearer secret\x01\x01"
    assert provider.calls == 1


def test_each_connection_requests_its_own_token_if_no_call_is_running() -> None:
    provider = Tokens("secret")
    network = oauth(provider)
    for calls in (1, 2):
        _, (token,) = log_in_with_token(network)
        network.respond(token, token_response(error_code=58, message="expired"))
        assert provider.calls == calls
        give_up(network)


class Stuck(SaslMechanism):  # type: ignore[misc]
    """A user's mechanism that blocks."""

    def __init__(self, **config: object) -> None:
        pass

    def auth_bytes(self) -> bytes:
        return b"hello"

    def receive(self, auth_bytes: bytes) -> None:
        pass

    def is_done(self) -> bool:
        return True

    def is_authenticated(self) -> bool:
        return True

    def auth_details(self) -> str:
        return ""


def test_hanging_mechanisms_use_a_limited_number_of_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(SASL_MECHANISMS, "STUCK", Stuck)
    network = Network(
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="STUCK",
        socket_connection_setup_timeout_ms=1000,
    )
    for _ in range(20):
        log_in(network, "STUCK")
        give_up(network)
    assert len(network.driver.tasks) == MAX_CONCURRENT
    log_in(network, "STUCK")
    network.driver.run()  # they return in the end
    network.iterate()
    assert len(network.driver.tasks) == 1, "abandoned callbacks are not counted"
    network.driver.run()
    network.iterate()
    (token,) = network.transport.take_sent()
    assert token_of(token) == b"hello"


def authenticated(network: Network, lifetime: int) -> Sent:
    network.respond(begin(network), handshake_response("PLAIN"))
    (token,) = network.transport.take_sent()
    network.respond(token, token_response(lifetime=lifetime))
    network.iterate()
    (sent,) = network.transport.take_sent()
    return sent


def test_a_session_is_renewed_before_it_ends() -> None:
    network = Network(**PLAIN)
    network.request()
    sent = authenticated(network, lifetime=10_000)
    network.respond(sent, metadata_response())
    wait_ms = network.iterate()
    assert 8500 <= wait_ms <= 9500
    assert network.transport.open == {1}
    network.iterate(after_ms=wait_ms)
    assert network.transport.open == set()
    unsent = network.request()
    authenticated(network, lifetime=10_000)
    assert network.transport.open == {2}
    assert not unsent.future.done


def test_a_session_that_ends_waits_for_its_responses() -> None:
    network = Network(**PLAIN)
    first = network.request()
    sent = authenticated(network, lifetime=5_000)
    second = network.request()
    assert network.iterate(after_ms=4800) > 1000
    assert network.transport.take_sent() == []  # the old connection gets no new requests
    network.respond(sent, metadata_response())
    assert first.future.error is None
    network.iterate()
    assert network.transport.open == {2}
    assert not second.future.done
