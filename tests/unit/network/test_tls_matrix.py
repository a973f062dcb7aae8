"""The native transport never accepts a certificate that OpenSSL rejects with the same options."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tandem_kafka.network.native_tls import NativeUnsupportedError
from tandem_kafka.network.native_transport import NativeTransport, UnsupportedTlsError
from tandem_kafka.network.selector import SelectorTransport
from tandem_kafka.network.transport import ConnectionClosed, ConnectionOpened, ServerAddress
from tandem_kafka.runtime import MonotonicClock
from tests.unit.network import tls_cases
from tests.unit.network.certificate_chains import Case, Made, Verdict, authority, broker
from tests.unit.network.peers import PATIENCE_S, AnyTransport, events_of, needs_extension
from tests.unit.network.random_chains import ChainMaker
from tests.unit.network.scripted import Settings
from tests.unit.network.tls_server import settings

pytestmark = [pytest.mark.real_time, needs_extension]


class Broker:
    """Sends one chain to everybody, even one that OpenSSL considers too weak to send."""

    def __init__(self, case: Case, directory: Path) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.set_ciphers("ALL:@SECLEVEL=0")
        chain, key = directory / "sent.pem", directory / "key.pem"
        chain.write_bytes(b"".join(made.pem for made in case.sent))
        key.write_bytes(case.sent[0].key_pem)
        self.context.load_cert_chain(chain, key)
        #: Whether it closes each connection, with the tickets for another session on their way.
        self.hangs_up = False
        #: For each connection, whether it resumed the session of another one.
        self.reused: list[bool | None] = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                client.settimeout(PATIENCE_S)
                with contextlib.suppress(OSError), self.context.wrap_socket(client, True) as sock:
                    self.reused.append(sock.session_reused)
                    if not self.hangs_up:
                        sock.recv(1)

    def stop(self) -> None:
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(PATIENCE_S)


def options(case: Case, directory: Path) -> Settings:
    trusted = directory / "trusted.pem"
    parts = (each.pem if isinstance(each, Made) else each for each in case.trusted)
    trusted.write_bytes(b"".join(parts))
    given = {"ssl_cafile": str(trusted), "ssl_check_hostname": case.check_hostname}
    if case.revoked is not None:
        (directory / "revoked.pem").write_bytes(case.revoked)
        given["ssl_crlfile"] = str(directory / "revoked.pem")
    return settings(**given)


def outcome(transport: AnyTransport, case: Case, port: int) -> Exception | None:
    """Connect twice, with the same outcome; return the error, or None."""
    errors: list[Exception | None] = []
    for _ in range(2):
        number = transport.connect(ServerAddress(case.host, "127.0.0.1", port))
        (event,) = events_of(transport)
        errors.append(event.error if isinstance(event, ConnectionClosed) else None)
        if errors[-1] is None:
            assert event == ConnectionOpened(number)
            transport.disconnect(number)  # the broker has one connection at a time
    transport.close()
    assert type(errors[0]) is type(errors[1]), f"{case.name}: {errors}"
    return errors[0]


def judged(case: Case, directory: Path) -> Verdict:
    """Connect with both transports."""
    broker = Broker(case, directory)
    port = broker.listener.getsockname()[1]
    given = options(case, directory)
    try:
        by_openssl = outcome(SelectorTransport(given, MonotonicClock()), case, port)
        try:
            by_rustls = outcome(NativeTransport(given), case, port)
        except NativeUnsupportedError as error:
            by_rustls = error
    finally:
        broker.stop()
    if by_openssl is not None:
        assert by_rustls is not None, f"{case.name}: OpenSSL refuses it: {by_openssl}"
        return Verdict.REFUSED
    if by_rustls is None:
        return Verdict.ACCEPTED
    left = isinstance(by_rustls, UnsupportedTlsError | NativeUnsupportedError)
    return Verdict.LEFT if left else Verdict.STRICTER


@pytest.mark.parametrize("subject", tls_cases.ALL, ids=lambda subject: subject.__name__)
def test_the_native_transport_is_not_weaker(
    subject: Callable[[], Iterator[Case]], tmp_path: Path
) -> None:
    wrong = {}
    for case in subject():
        found = judged(case, tmp_path)
        if found is not case.verdict:
            wrong[case.name] = f"expected that {case.verdict.value}, but {found.value}"
    assert not wrong


def test_whatever_is_stricter_has_a_reason() -> None:
    cases = [case for subject in tls_cases.ALL for case in subject()]
    stricter = {case.name for case in cases if case.verdict is Verdict.STRICTER}
    assert stricter == set(tls_cases.REASONS_TO_BE_STRICTER)
    assert len(cases) == len({case.name for case in cases}) > 100


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("native", [False, True])
def test_each_connection_is_verified_for_itself(
    version: ssl.TLSVersion, tmp_path: Path, *, native: bool
) -> None:
    root = authority()
    case = Case("good", Verdict.ACCEPTED, [broker(root)], [root])
    server = Broker(case, tmp_path)
    server.context.maximum_version = version
    server.hangs_up = True
    given = options(case, tmp_path)
    transport = NativeTransport(given) if native else SelectorTransport(given, MonotonicClock())
    address = ServerAddress(case.host, "127.0.0.1", server.listener.getsockname()[1])
    try:
        for _ in range(3):
            number = transport.connect(address)
            events = events_of(transport)
            while not isinstance(events[-1], ConnectionClosed):
                events += events_of(transport)
            assert events[0] == ConnectionOpened(number)
    finally:
        transport.close()
        server.stop()
    assert server.reused == [False, False, False]


@pytest.mark.parametrize(
    "seeds",
    [range(80), pytest.param(range(80, 1_080), marks=pytest.mark.full("it takes a minute"))],
)
def test_it_is_not_weaker_with_random_chains(seeds: range, tmp_path: Path) -> None:
    found = Counter(judged(ChainMaker(seed).case(), tmp_path) for seed in seeds)
    assert set(found) >= {Verdict.ACCEPTED, Verdict.REFUSED, Verdict.LEFT}
