from __future__ import annotations

import logging
import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from tandem_kafka.network import implementation
from tandem_kafka.network.implementation import open_transport
from tandem_kafka.network.native_transport import NativeTransport
from tandem_kafka.network.selector import SelectorTransport
from tandem_kafka.network.tls_fallback import TlsTransport
from tandem_kafka.network.transport import Transport
from tandem_kafka.records import ReaderOptions
from tandem_kafka.runtime import MonotonicClock
from tests.unit.network.peers import needs_extension
from tests.unit.network.scripted import Settings
from tests.unit.network.tls_server import settings

pytestmark = pytest.mark.real_time


def opened(chosen: Settings) -> Transport:
    transport = open_transport(chosen, MonotonicClock(), ReaderOptions())
    transport.close()
    return transport


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO)
    return caplog


@needs_extension
def test_the_native_transport_is_used_without_a_log_line(logged: pytest.LogCaptureFixture) -> None:
    assert isinstance(opened(Settings()), NativeTransport)
    assert isinstance(opened(settings()), TlsTransport)
    assert logged.messages == []


def test_python_is_used_without_the_extension(
    logged: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(implementation, "native_available", False)
    say = implementation.log.info
    monkeypatch.setattr(implementation, "log_fallback", lambda: say("not there"))
    assert isinstance(opened(Settings()), SelectorTransport)
    assert logged.messages == ["not there"]


def old_key(tmp_path: Path) -> dict[str, Any]:
    """A key encrypted in a format older than PKCS#8."""
    issued = trustme.CA().issue_cert("client.example")
    key = serialization.load_pem_private_key(issued.private_key_pem.bytes(), None)
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.BestAvailableEncryption(b"secret"),
    )
    certificate, key_file = tmp_path / "client.pem", tmp_path / "client.key"
    issued.cert_chain_pems[0].write_to_path(certificate)
    key_file.write_bytes(pem)
    return {
        "ssl_certfile": str(certificate),
        "ssl_keyfile": str(key_file),
        "ssl_password": "secret",
    }


@needs_extension
@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda _: {"ssl_context": ssl.create_default_context()}, "does not support ssl_context"),
        (lambda _: {"ssl_ciphers": "HIGH"}, "which rustls does not support"),
        (old_key, "ssl_keyfile is encrypted in the legacy PEM format, not PKCS#8"),
    ],
    ids=["context", "ciphers", "key"],
)
def test_options_unsupported_by_rustls_are_logged_and_use_python(
    logged: pytest.LogCaptureFixture, tmp_path: Path, make: Any, words: str
) -> None:
    assert isinstance(opened(settings(**make(tmp_path))), SelectorTransport)
    (message,) = logged.messages
    assert message.startswith("using the Python transport instead of the native one: ")
    assert words in message
