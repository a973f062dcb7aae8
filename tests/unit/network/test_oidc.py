"""Tokens from a token endpoint: requests, lifetime, renewal, failures; no secret in an error."""

from __future__ import annotations

import base64
import json
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
)
from joserfc.jwk import RSAKey

from tandem_kafka.errors import KafkaConfigurationError, KafkaError, SaslAuthenticationFailedError
from tandem_kafka.network.oidc import OidcTokens, endpoint
from tests.kafka.token_server import CLIENT, SECRET, TokenServer
from tests.kafka.tokens import TokenIssuer
from tests.unit.network.scripted import Settings

pytestmark = pytest.mark.real_time

JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
PASSPHRASE = "of the private key"

Make = Callable[..., OidcTokens]


class Unshown(Settings):
    """Settings that show no secret, like the real ones."""

    def __repr__(self) -> str:
        return "Settings"


class Clock:
    """Stands still until a test moves it."""

    def __init__(self) -> None:
        self.ms = 1_000
        self.wall_start_ms = 1_800_000_000_000

    def now_ms(self) -> int:
        return self.ms

    def after_ms(self, duration_ms: float) -> int:
        return self.ms + int(duration_ms)

    def wall_ms(self) -> int:
        return self.wall_start_ms + self.ms

    def sleep_ms(self, duration_ms: float) -> None:
        self.ms += int(duration_ms)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> TokenIssuer:
    return TokenIssuer(tmp_path_factory.mktemp("tokens"))


@pytest.fixture
def server(issuer: TokenIssuer, authority: trustme.CA) -> Iterator[TokenServer]:
    server = TokenServer(issuer, authority)
    yield server
    server.stop()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(endpoint, "sleep_ms", clock.sleep_ms)
    return clock


@pytest.fixture
def make(server: TokenServer, authority: trustme.CA, clock: Clock, tmp_path: Path) -> Make:
    cafile = tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(str(cafile))

    def make(**options: Any) -> OidcTokens:
        given = {
            "token_endpoint_url": server.url,
            "client_id": CLIENT,
            "client_secret": SECRET,
            "cafile": str(cafile),
            **options,
        }
        timeout_ms = given.pop("timeout_ms", 10_000)
        named = {f"sasl_oauthbearer_{name}": value for name, value in given.items()}
        settings = Unshown(socket_connection_setup_timeout_ms=timeout_ms, **named)
        return OidcTokens(settings, clock)

    return make


def test_client_credentials(make: Make, server: TokenServer) -> None:
    tokens = make(scope="kafka read", extensions={"logicalCluster": "one"})
    assert tokens.token().count(".") == 2
    assert server.requests == [{"grant_type": "client_credentials", "scope": "kafka read"}]
    assert tokens.extensions() == {"logicalCluster": "one"}


def test_a_token_is_reused_and_renewed_before_it_expires(
    make: Make, server: TokenServer, clock: Clock
) -> None:
    tokens = make()
    first = tokens.token()
    clock.ms += 479_999
    assert tokens.token() == first
    clock.ms += 1
    assert tokens.token() != first
    assert len(server.requests) == 2


def test_a_rejected_token_is_not_used_again(make: Make) -> None:
    tokens = make()
    first = tokens.token()
    tokens.discard()
    assert tokens.token() != first


@pytest.mark.parametrize("expires_in", ["600", 600.5, None])
def test_the_lifetime_is_that_of_the_response_or_of_the_token(
    make: Make, server: TokenServer, clock: Clock, expires_in: Any
) -> None:
    clock.wall_start_ms = int(time.time() * 1000) - clock.ms
    server.fields = {"expires_in": expires_in}
    tokens = make()
    first = tokens.token()
    clock.ms += 470_000
    assert tokens.token() == first
    clock.ms += 20_000
    assert tokens.token() != first


@pytest.fixture
def slow(server: TokenServer, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the endpoint take five seconds for each token."""
    answer = server.answer

    def slowly(*request: Any) -> tuple[int, bytes]:
        clock.ms += 5_000
        return answer(*request)

    monkeypatch.setattr(server, "answer", slowly)


@pytest.mark.usefixtures("slow")
def test_the_lifetime_begins_when_the_token_is_requested(make: Make, clock: Clock) -> None:
    """Or a slow endpoint would make tokens look valid longer than they are."""
    begin_ms = clock.ms
    tokens = make()
    first = tokens.token()
    clock.ms = begin_ms + 479_999
    assert tokens.token() == first
    clock.ms += 1
    assert tokens.token() != first


@pytest.mark.usefixtures("slow")
def test_the_end_of_a_token_is_counted_from_its_request_too(
    make: Make, server: TokenServer, clock: Clock
) -> None:
    begin_ms = clock.ms
    tokens = make()
    first = tokens.token()
    server.stop()
    clock.ms = begin_ms + 599_999
    assert tokens.token() == first
    clock.ms += 1
    with pytest.raises(SaslAuthenticationFailedError):
        tokens.token()


@pytest.mark.parametrize("status", [500, 503, 429])
def test_an_endpoint_that_is_not_ready_is_asked_again(
    make: Make, server: TokenServer, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    answer = server.answer

    def at_last(*request: Any) -> tuple[int, bytes]:
        response = answer(*request)
        return response if len(server.requests) == 4 else (status, b"not ready")

    monkeypatch.setattr(server, "answer", at_last)
    assert make().token().count(".") == 2
    assert len(server.requests) == 4


def test_an_endpoint_that_stays_unready_is_given_up(
    make: Make, server: TokenServer, clock: Clock
) -> None:
    server.response = 503, b"not ready"
    begin_ms = clock.ms
    with pytest.raises(SaslAuthenticationFailedError, match="responded with status 503"):
        make().token()
    assert 6_000 < clock.ms - begin_ms <= 7_000
    assert len(server.requests) < 15


def test_a_rejection_is_not_repeated(make: Make, server: TokenServer) -> None:
    server.response = 400, b"{}"
    with pytest.raises(SaslAuthenticationFailedError, match="status 400"):
        make().token()
    assert len(server.requests) == 1


def test_a_token_of_unknown_lifetime_is_used_once(make: Make, server: TokenServer) -> None:
    server.response = 200, b'{"access_token": "opaque"}'
    tokens = make()
    assert [tokens.token(), tokens.token()] == ["opaque", "opaque"]
    assert len(server.requests) == 2


ODD_CLAIMS = [b'{"exp": NaN}', b'{"exp": -Infinity}', b'{"exp": "x"}', b"[" * 100_000]


@pytest.mark.parametrize("claims", ODD_CLAIMS, ids=lambda claims: str(claims[:16]))
def test_an_odd_token_is_of_unknown_lifetime(
    make: Make, server: TokenServer, claims: bytes
) -> None:
    token = f"h.{base64.urlsafe_b64encode(claims).decode().rstrip('=')}.s"
    server.response = (200, json.dumps({"access_token": token}).encode())
    tokens = make()
    assert tokens.token() == tokens.token() == token
    assert len(server.requests) == 2


@pytest.mark.parametrize("lifetime", ["NaN", "-Infinity", f'"{"9" * 5_000}"', '"ten"', "null"])
def test_an_odd_lifetime_is_unknown(make: Make, server: TokenServer, lifetime: str) -> None:
    server.response = (200, b'{"access_token": "t", "expires_in": %b}' % lifetime.encode())
    tokens = make()
    assert tokens.token() == tokens.token() == "t"
    assert len(server.requests) == 2


def test_the_old_token_is_used_while_the_endpoint_is_down(
    make: Make, server: TokenServer, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    tokens = make()
    first = tokens.token()
    server.stop()
    clock.ms += 500_000
    assert tokens.token() == first
    assert "cannot renew the token, which is valid for another 100 s: SASL OAUTH" in caplog.text
    clock.ms += 100_000
    with pytest.raises(SaslAuthenticationFailedError, match="no response from the token endpoint"):
        tokens.token()
    server.start()
    assert tokens.token() != first


FAILURES: dict[str, tuple[dict[str, Any], tuple[int, bytes] | None, str]] = {
    "wrong secret": (
        {"client_secret": "not" + SECRET},
        None,
        "status 401: invalid_client: not a known client: Basic <hidden>",
    ),
    "secret sent back": ({}, (400, json.dumps({"error": SECRET}).encode()), "status 400: <hidden>"),
    "error of the server": ({}, (500, b"<html>"), "responded with status 500$"),
    "redirect": ({}, (302, b""), "responded with status 302$"),
    "no JSON": ({}, (200, b"<html>"), "is not a JSON object"),
    "a list": ({}, (200, b"[]"), "is not a JSON object"),
    "100,000 lists": ({}, (200, b"[" * 100_000), "is not a JSON object"),
    "no token": ({}, (200, b'{"token": "t"}'), "no valid access_token"),
    "a token with control characters": (
        {},
        (200, b'{"access_token": "a\\u0001auth=Bearer b"}'),
        "no valid access_token",
    ),
    "too much": ({}, (200, b" " * (2 << 20)), "more than 1048576 bytes"),
    "unknown authority": ({"cafile": None}, None, "CERTIFICATE_VERIFY_FAILED"),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_failures_say_why_without_the_secret(make: Make, server: TokenServer, failure: str) -> None:
    options, server.response, text = FAILURES[failure]
    tokens = make(**options)
    with pytest.raises(SaslAuthenticationFailedError, match=text) as caught:
        tokens.token()
    assert f"https://localhost:{server.port}/oauth2/token" in str(caught.value) or "valid" in text
    check_no_secret(caught.value, SECRET)


def check_no_secret(error: BaseException, *secrets: str) -> None:
    """Neither the texts nor the local variables of our frames have a secret."""
    shown = [str(error), repr(error)]
    for each in (error, error.__cause__):
        if each is None:
            continue
        trace = traceback.TracebackException.from_exception(each, capture_locals=True)
        for frame in trace.stack:
            if "/tandem_kafka/" in frame.filename:
                shown += [*(frame.locals or {}).values()]
        shown += trace.format_exception_only()
    for secret in secrets:
        assert secret not in "\n".join(shown)


def test_a_silent_endpoint_is_given_up(make: Make, server: TokenServer) -> None:
    server.released.clear()
    with pytest.raises(SaslAuthenticationFailedError, match="timed out"):
        make(timeout_ms=100).token()


def test_the_jwt_bearer_grant_signs_assertions(
    make: Make, server: TokenServer, clock: Clock, tmp_path: Path
) -> None:
    clock.wall_start_ms = int(time.time() * 1000) - clock.ms
    options, key = _signing(server, tmp_path)
    server.client_key = key
    tokens = make(**options)
    assert tokens.token().count(".") == 2
    (form,) = server.requests
    assert form["grant_type"] == JWT_BEARER
    tokens.discard()
    tokens.token()
    assert server.requests[1]["assertion"] != form["assertion"], "each has its own jti"


def _signing(server: TokenServer, folder: Path) -> tuple[dict[str, Any], RSAKey]:
    key = RSAKey.generate_key(2048)
    encryption = BestAvailableEncryption(PASSPHRASE.encode())
    file = folder / "client.key"
    file.write_bytes(key.private_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption))
    options = {
        "grant_type": JWT_BEARER,
        "client_id": None,
        "client_secret": None,
        "assertion_private_key_file": str(file),
        "assertion_private_key_passphrase": PASSPHRASE,
        "assertion_claim_iss": "the client",
        "assertion_claim_sub": "alice",
        "assertion_claim_aud": server.url,
    }
    return options, key


def test_an_assertion_file_is_read_for_each_token(
    make: Make, server: TokenServer, tmp_path: Path
) -> None:
    file = tmp_path / "assertion"
    file.write_text("one\n")
    server.response = 200, b'{"access_token": "opaque"}'
    options = {"grant_type": JWT_BEARER, "client_id": None, "client_secret": None}
    tokens = make(**options, assertion_file=str(file))
    tokens.token()
    file.write_text("two\n")
    tokens.token()
    assert [form["assertion"] for form in server.requests] == ["one", "two"]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"assertion_private_key_passphrase": "wrong"}, "assertion_private_key_file: cannot use"),
        ({"assertion_private_key_passphrase": None}, "passphrase right"),
        ({"assertion_private_key_file": "/nowhere"}, "cannot read /nowhere"),
        ({"assertion_file": "/nowhere"}, "sasl_oauthbearer_assertion_file: cannot read /nowhere"),
        ({"assertion_algorithm": "ES256"}, "for ES256"),
        ({"cafile": "/nowhere"}, "sasl_oauthbearer_cafile: cannot use /nowhere"),
    ],
)
def test_files_are_checked_by_the_constructor(
    make: Make, server: TokenServer, tmp_path: Path, change: dict[str, Any], text: str
) -> None:
    options, _ = _signing(server, tmp_path)
    with pytest.raises(KafkaConfigurationError, match=text) as caught:
        make(**options | change)
    check_no_secret(caught.value, PASSPHRASE)


def test_a_rejected_assertion_is_not_shown(make: Make, server: TokenServer, tmp_path: Path) -> None:
    options, _ = _signing(server, tmp_path)
    tokens = make(**options)
    with pytest.raises(KafkaError, match="status 401: invalid_client: not a known client: <hidd"):
        tokens.token()
