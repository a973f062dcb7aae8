"""The order of the steps, and what a failed step ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tandem_kafka.config import Config
from tandem_kafka.config.tls import build_context
from tandem_kafka.errors import KafkaConfigurationError, reason_of
from tandem_kafka_cli.doctor.access import Access
from tandem_kafka_cli.doctor.certificates import own_certificate
from tandem_kafka_cli.doctor.finding import Finding, Step, Verdict, failed, passed
from tandem_kafka_cli.doctor.login import Login
from tandem_kafka_cli.doctor.reaching import Server, lacks_tls

if TYPE_CHECKING:
    import ssl

    from tandem_kafka.types import ClusterSnapshot, Node
    from tandem_kafka_cli.connection import Connection


@dataclass(frozen=True, slots=True)
class Subject:
    """What is examined in addition to the connection.

    Attributes:
        topic: A topic, or None.
        group: A group, or None.
        timeout_ms: The limit of each step.
        shared: Whether the group must be a share group.
    """

    topic: str | None
    group: str | None
    timeout_ms: int
    shared: bool = False


def examine(connection: Connection, subject: Subject) -> Iterator[Finding]:
    """Examine a connection, then a topic and a group."""
    try:
        config = Config.from_options(connection.options)
        context = build_context(config)
    except KafkaConfigurationError as error:
        yield failed(Step.OPTIONS, "", reason_of(error), "correct this option")
        return
    examined = _Examination(connection, config, context, subject)
    yield passed(
        Step.OPTIONS,
        "",
        f"{config.security_protocol}, bootstrap servers: {len(config.bootstrap_servers)}",
    )
    yield from examined.cluster()
    if examined.snapshot is None:
        return
    access = Access(connection, subject.timeout_ms)
    if subject.topic is not None:
        yield from access.topic(examined.snapshot, subject.topic)
    if subject.group is not None:
        yield from access.group(subject.group, shared=subject.shared)


class _Examination:
    """Examines the servers of a connection."""

    def __init__(
        self,
        connection: Connection,
        config: Config,
        context: ssl.SSLContext | None,
        subject: Subject,
    ) -> None:
        self._config = config
        self._context = context
        self._clock = connection.environment.clock
        self._timeout_ms = subject.timeout_ms
        self._login = Login(connection, config, subject.timeout_ms)

    @property
    def snapshot(self) -> ClusterSnapshot | None:
        """The cluster, once a server has described it."""
        return self._login.snapshot

    def cluster(self) -> Iterator[Finding]:
        """Examine the bootstrap servers, then the brokers that one of them names."""
        direct = self._config.proxy_url is None
        if self._context is not None and self._config.ssl_certfile is not None:
            yield own_certificate(self._config.ssl_certfile, self._clock.wall_ms())
        if not direct:
            yield from self._proxy()
        for host, port in self._config.bootstrap_servers:
            server = self._server(host, port)
            good = True
            if direct:
                for finding in self._reach(server):
                    good = good and finding.verdict is Verdict.OK
                    yield finding
            if good:
                yield from self._login.examine(server)
        if self.snapshot is not None and direct:
            yield from self._listeners(self.snapshot)

    def _server(self, host: str, port: int) -> Server:
        return Server(host, port, self._clock, self._timeout_ms)

    def _proxy(self) -> Iterator[Finding]:
        parts = urlsplit(self._config.proxy_url or "")
        proxy = self._server(parts.hostname or "", parts.port or 0)
        return _until_failure(proxy.lookup, proxy.connect)

    def _reach(self, server: Server) -> Iterator[Finding]:
        return _until_failure(server.lookup, server.connect, partial(self._encrypt, server))

    def _encrypt(self, server: Server) -> Finding:
        if self._context is None:
            return lacks_tls(server.target)
        return server.handshake(self._context)

    def _listeners(self, snapshot: ClusterSnapshot) -> Iterator[Finding]:
        """Examine the addresses that the brokers advertise: all records come from them."""
        for node in snapshot.nodes.values():
            server = self._server(node.host, node.port)
            problem = next(
                (each for each in self._reach(server) if each.verdict is not Verdict.OK), None
            )
            if problem is None:
                yield passed(Step.LISTENERS, server.target, f"broker {node.node_id} is reachable")
            else:
                yield _unreachable(node, server, problem)


def _until_failure(*steps: Callable[[], Finding]) -> Iterator[Finding]:
    """Do the steps; a failed one is the last."""
    for step in steps:
        finding = step()
        yield finding
        if finding.verdict is not Verdict.OK:
            return


def _unreachable(node: Node, server: Server, problem: Finding) -> Finding:
    advice = (
        f"set advertised.listeners of broker {node.node_id} to an address that clients can reach; "
        "the bootstrap server is only asked for the brokers' addresses"
    )
    if problem.step is Step.TLS:
        advice = problem.advice
    return failed(
        Step.LISTENERS, server.target,
        f"broker {node.node_id} advertises {server.target}: {problem.seen}", advice,
    )  # fmt: skip
