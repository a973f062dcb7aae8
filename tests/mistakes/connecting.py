"""The mistakes of connections: each is made against servers on real sockets."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Thread
from typing import Any, Final, Self

import trustme

from tandem_kafka import KafkaConsumer, ShareConsumer, read
from tandem_kafka_testing.served import ServedKafka
from tests.mistakes.mistake import Mistake

#: How long a consumer retries: long enough for one failure on a busy machine.
_RETRYING_MS: Final = 1_000
#: The response of a TLS listener to plain text: a fatal alert.
_ALERT: Final = bytes.fromhex("15 03 03 00 02 02 46")
_HTTP: Final = b"HTTP/1.1 400 Bad Request\r\n\r\n"


class Servers:
    """Brokers of each kind, and servers that are none.

    Attributes:
        plain: Its address: no TLS and no logins.
        sasl: Logins, for alice with the password "secret".
        ssl: TLS.
        sasl_ssl: Both.
        folder: For files.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._stack = ExitStack()
        self.plain = self._stack.enter_context(ServedKafka()).bootstrap
        self.sasl = self._stack.enter_context(ServedKafka(users={"alice": "secret"})).bootstrap
        authority = trustme.CA()
        self.authority = self._file("ca.pem", authority.cert_pem.bytes())
        self.another_authority = self._file("another.pem", trustme.CA().cert_pem.bytes())
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(self._context)
        self.ssl = self._server(lambda client: self._forward(client, self.plain))
        self.sasl_ssl = self._server(lambda client: self._forward(client, self.sasl))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def closed(self) -> str:
        """Return the address of a port on which nothing listens."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            return _address(server)

    def answering(self, response: bytes) -> str:
        """Return the address of a server with one response to everything."""

        def answer(client: socket.socket) -> None:
            client.recv(1 << 16)
            client.sendall(response)
            client.recv(1 << 16)  # until the consumer closes: a reset could drop the response

        return self._server(answer)

    def _file(self, name: str, data: bytes) -> str:
        path = self.folder / name
        path.write_bytes(data)
        return str(path)

    def _server(self, serve: Callable[[socket.socket], None]) -> str:
        server = socket.create_server(("127.0.0.1", 0))
        self._stack.callback(server.close)
        self._stack.callback(_shut, server)  # close() alone does not end accept()
        Thread(target=_accept, args=(server, serve), daemon=True).start()
        return _address(server)

    def _forward(self, client: socket.socket, address: str) -> None:
        """Be the TLS listener of a broker without one."""
        host, _, port = address.partition(":")
        with (
            self._context.wrap_socket(client, server_side=True) as secure,
            socket.create_connection((host, int(port))) as broker,
        ):
            back = Thread(target=_copy, args=(broker, secure), daemon=True)
            back.start()
            _copy(secure, broker)
            back.join()


def _address(server: socket.socket) -> str:
    return f"127.0.0.1:{server.getsockname()[1]}"


def _shut(sock: socket.socket) -> None:
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


def _accept(server: socket.socket, serve: Callable[[socket.socket], None]) -> None:
    def one(client: socket.socket) -> None:
        with client, suppress(OSError):
            serve(client)

    with suppress(OSError):
        while True:
            Thread(target=one, args=(server.accept()[0],), daemon=True).start()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    _shut(target)


class Provider:
    """A token provider without a base class."""

    def token(self) -> str:
        return "a-token"


def connect(servers: str, protocol: str = "PLAINTEXT", **options: Any) -> None:
    """Make a consumer; `alice` logs in where the protocol has logins."""
    if "SASL" in protocol:
        options = {
            "sasl_mechanism": "PLAIN",
            "sasl_plain_username": "alice",
            "sasl_plain_password": "secret",
            **options,
        }
    consumer = KafkaConsumer(
        bootstrap_servers=servers,
        security_protocol=protocol,
        bootstrap_timeout_ms=_RETRYING_MS,
        **options,
    )
    consumer.close()


def share_in_a_group(servers: Servers) -> None:
    options = {"bootstrap_servers": servers.plain, "group_id": "readers"}
    with (
        KafkaConsumer("orders", **options) as consumer,
        ShareConsumer("orders", **options) as share,
    ):
        while not consumer.group_metadata().member_id:
            consumer.poll(100)
        share.poll(30_000)


def read_from_yesterday(servers: Servers) -> None:
    with KafkaConsumer("orders", bootstrap_servers=servers.plain) as consumer:
        while not consumer.partitions_for_topic("orders"):
            consumer.poll(100)
    read("orders", bootstrap_servers=servers.plain, start="yesterday")


_CHECK: Final = "check bootstrap_servers and that the brokers run"
_IF_SASL: Final = "if it requires SASL, set security_protocol to 'SASL_SSL' or 'SASL_PLAINTEXT'"

CONNECTING: Final[dict[str, Mistake]] = {
    "a closed port": Mistake(
        lambda s: connect(s.closed()), "cannot connect to 127.0.0.1:", "Connection refused", _CHECK
    ),
    "an unknown host": Mistake(
        lambda _: connect("kafka.invalid:9092"),
        "kafka.invalid:9092",
        "cannot resolve kafka.invalid",
        _CHECK,
    ),
    "an HTTP port": Mistake(
        lambda s: connect(s.answering(_HTTP)),
        "127.0.0.1:",
        "responded with HTTP: it is not a Kafka broker",
        _CHECK,
    ),
    "plain text to TLS": Mistake(
        lambda s: connect(s.answering(_ALERT)),
        "127.0.0.1:",
        "responded with a TLS alert: this port requires TLS",
        "set security_protocol to 'SSL'",
    ),
    "plain text to SASL": Mistake(
        lambda s: connect(s.sasl),
        "bootstrap server 127.0.0.1:",
        "closed the connection at the first request",
        _IF_SASL,
    ),
    "TLS to SASL over TLS": Mistake(
        lambda s: connect(s.sasl_ssl, "SSL", ssl_cafile=s.authority),
        "bootstrap server 127.0.0.1:",
        "closed the connection at the first request",
        _IF_SASL,
    ),
    "TLS to plain text": Mistake(
        lambda s: connect(s.plain, "SSL", ssl_cafile=s.authority),
        "127.0.0.1:",
        "closed the connection during the TLS handshake; if this port has no TLS",
        "use another port or correct security_protocol",
    ),
    "SASL to plain text": Mistake(
        lambda s: connect(s.plain, "SASL_PLAINTEXT"),
        "127.0.0.1: this port",
        "does not use SASL, but security_protocol='SASL_PLAINTEXT'",
        "set security_protocol='PLAINTEXT', or use the port of a SASL listener",
    ),
    "SASL over TLS to TLS": Mistake(
        lambda s: connect(s.ssl, "SASL_SSL", ssl_cafile=s.authority),
        "127.0.0.1: this port",
        "does not use SASL, but security_protocol='SASL_SSL'",
        "set security_protocol='SSL', or use the port of a SASL listener",
    ),
    "a mechanism that is not enabled": Mistake(
        lambda s: connect(
            s.sasl,
            "SASL_PLAINTEXT",
            sasl_mechanism="OAUTHBEARER",
            sasl_oauth_token_provider=Provider(),
        ),
        "sasl_mechanism 'OAUTHBEARER'",
        "127.0.0.1 has not enabled",
        "set one that is enabled: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512",
    ),
    "a wrong password": Mistake(
        lambda s: connect(s.sasl, "SASL_PLAINTEXT", sasl_plain_password="secrets"),
        "sasl_plain_username='alice'",
        "Invalid username or password",
        "and its password",
    ),
    "an unknown CA": Mistake(
        lambda s: connect(s.ssl, "SSL", ssl_cafile=s.another_authority),
        "TLS with 127.0.0.1:",
        "certificate verify failed: unable to get local issuer certificate",
        "set ssl_cafile to a file with the CA of the broker's certificate",
    ),
    "a missing file": Mistake(
        lambda s: connect(s.ssl, "SSL", ssl_cafile="no/such.pem"),
        "ssl_cafile: cannot read no/such.pem",
        "No such file or directory",
        "correct the path or its permissions",
    ),
    "a file without certificates": Mistake(
        lambda s: connect(s.ssl, "SSL", ssl_cafile=__file__),
        "ssl_cafile: cannot use ",
        "no certificate or crl found",
        "which must be in PEM format",
    ),
    "SASL options without SASL": Mistake(
        lambda s: connect(s.plain, sasl_mechanism="PLAIN", sasl_plain_password="secret"),
        "sasl_mechanism, sasl_plain_password",
        "no effect with security_protocol='PLAINTEXT'",
        "set 'SASL_PLAINTEXT' or 'SASL_SSL'",
    ),
    "a range from a word": Mistake(
        read_from_yesterday,
        "start 'yesterday'",
        "is no position",
        "write beginning, end, committed, an offset, -N (N before the end) or a time: s@TIME",
    ),
    "a share consumer in a group": Mistake(
        share_in_a_group,
        "the group 'readers'",
        "exists and is no share group",
        "use another group_id for ShareConsumer",
    ),
}
