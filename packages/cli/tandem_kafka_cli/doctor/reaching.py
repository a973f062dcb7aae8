"""Can a server be reached? Its name, a TCP connection, and TLS, each on its own."""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress
from typing import Any, Final

from tandem_kafka.runtime import Clock
from tandem_kafka_cli.doctor.certificates import certificate_facts
from tandem_kafka_cli.doctor.finding import Finding, Step, failed, passed

#: OpenSSL's reasons to reject a certificate, and what to do; `X509_verify_cert_error_string`.
_REJECTED: Final = {
    9: "wait until the certificate is valid, or set the clock of this machine",
    10: "renew the broker's certificate; if it is valid, set the clock of this machine",
    18: "give the broker's self-signed certificate, or its CA, as ssl.ca.location (ssl_cafile)",
    19: "give the CA of the broker's certificate as ssl.ca.location (ssl_cafile)",
    20: "give the CA of the broker's certificate as ssl.ca.location (ssl_cafile)",
    21: "give the CA of the broker's certificate as ssl.ca.location (ssl_cafile)",
    62: "connect to one of these names, or issue a certificate with this one",
    64: "connect by one of these names: the certificate has no such address",
}
_UNKNOWN: Final = "compare the broker's certificate with ssl.ca.location (ssl_cafile)"


class Server:
    """A server to examine.

    Args:
        host: Its name or address.
        port: Its port.
        clock: Measures how long a connection takes.
        timeout_ms: The limit of each connection.
    """

    def __init__(self, host: str, port: int, clock: Clock, timeout_ms: int) -> None:
        self.host = host
        self.port = port
        self.target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._clock = clock
        self._timeout_s = timeout_ms / 1000
        self._addresses: list[tuple[Any, ...]] = []

    def lookup(self) -> Finding:
        """Look up the name."""
        try:
            found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        except OSError as error:
            return failed(
                Step.NAME, self.target, f"{self.host!r} has no address: {error.strerror or error}",
                "correct the name, or add it to DNS or to /etc/hosts of this machine",
            )  # fmt: skip
        self._addresses = found
        listed = ", ".join(dict.fromkeys(str(each[4][0]) for each in found))
        seen = "no lookup needed" if listed == self.host else f"{self.host} is {listed}"
        return passed(Step.NAME, self.target, seen)

    def connect(self) -> Finding:
        """Connect to the addresses until one accepts."""
        problems = []
        for family, kind, protocol, _, address in self._addresses:
            begun_ms = self._clock.now_ms()
            try:
                with socket.socket(family, kind, protocol) as opened:
                    opened.settimeout(self._timeout_s)
                    opened.connect(address)
            except OSError as error:
                problems.append(f"{address[0]}: {_reason(error, self._timeout_s)}")
                continue
            took_ms = self._clock.now_ms() - begun_ms
            text = f"connected to {address[0]}:{self.port} in {took_ms} ms"
            if problems:
                text += f"; not to {', '.join(problems)}"
            return passed(Step.TCP, self.target, text)
        refused = any("refused" in each for each in problems)
        return failed(
            Step.TCP, self.target, f"no connection: {', '.join(problems)}",
            "nothing listens on this port: start the broker, or correct the port" if refused
            else "packets do not arrive: check the firewall, the route and the address",
        )  # fmt: skip

    def handshake(self, context: ssl.SSLContext) -> Finding:
        """Do a TLS handshake as the consumer does."""
        try:
            with self._secured(context) as secured:
                cipher, shown = secured.cipher(), certificate_facts(secured)
                version = secured.version()
        except ssl.SSLCertVerificationError as error:
            reason = error.verify_message
            facts = self._presented()
            return failed(
                Step.TLS, self.target, f"the certificate is rejected: {reason} {facts}".rstrip(),
                _REJECTED.get(error.verify_code, _UNKNOWN),
            )  # fmt: skip
        except OSError as error:
            return failed(
                Step.TLS, self.target, f"no TLS handshake: {_reason(error, self._timeout_s)}",
                _handshake_advice(error),
            )  # fmt: skip
        name = cipher[0] if cipher else "unknown cipher"
        return passed(Step.TLS, self.target, f"{version}, {name} {shown}".rstrip())

    def offers_tls(self) -> bool:
        """Tell whether the port completes a TLS handshake, with any certificate."""
        try:
            with self._secured(_trusting()):
                return True
        except OSError as error:
            # It wants a certificate of the client: TLS, too.
            return isinstance(error, ssl.SSLError) and "ALERT" in (error.reason or "")

    def _presented(self) -> str:
        """Return the facts of a certificate that is not trusted."""
        with suppress(OSError), self._secured(_trusting()) as secured:
            return certificate_facts(secured)
        return ""

    def _secured(self, context: ssl.SSLContext) -> ssl.SSLSocket:
        opened = socket.create_connection((self.host, self.port), self._timeout_s)
        try:
            return context.wrap_socket(opened, server_hostname=self.host)
        except BaseException:
            opened.close()
            raise


def speaks_tls(target: str) -> Finding:
    """Return the finding for a port with TLS, while the client has none."""
    return failed(
        Step.TLS, target, "the port speaks TLS, but security.protocol has none",
        "set security.protocol to SSL, or to SASL_SSL if the broker asks for a login",
    )  # fmt: skip


def lacks_tls(target: str) -> Finding:
    """Return the finding of a step that a client without TLS skips."""
    return passed(Step.TLS, target, "not used: security.protocol has no TLS")


def _trusting() -> ssl.SSLContext:
    """Return a context for looking at a certificate, over which no data is sent."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _reason(error: OSError, timeout_s: float) -> str:
    if isinstance(error, TimeoutError):
        return f"no response within {timeout_s:g} s"
    if isinstance(error, ssl.SSLError):
        return (error.reason or str(error)).replace("_", " ").lower()
    return error.strerror or str(error)


def _handshake_advice(error: OSError) -> str:
    reason = error.reason if isinstance(error, ssl.SSLError) else None
    if reason and "CERTIFICATE_REQUIRED" in reason:
        return "the broker asks for a client certificate: set ssl.certificate.location"
    if reason and ("HANDSHAKE_FAILURE" in reason or "PROTOCOL_VERSION" in reason):
        return "client and broker share no TLS version or cipher: compare ssl.protocol on both"
    return (
        "this seems to be a port without TLS: use the port of the TLS listener, or set "
        "security.protocol to PLAINTEXT or SASL_PLAINTEXT"
    )
