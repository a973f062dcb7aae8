"""Resolves host names on other threads."""

from __future__ import annotations

import encodings.idna  # noqa: F401 - now, and not by the codec on other threads, amid a fork
import socket
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final

from tandem_kafka.config.servers import is_ipv4, is_ipv6
from tandem_kafka.errors import KafkaConnectionError
from tandem_kafka.network.offloading import Offloading
from tandem_kafka.network.transport import ServerAddress
from tandem_kafka.wire.hosts import address_problem

if TYPE_CHECKING:
    from tandem_kafka.network.proxies import Proxy

#: The value of `client_dns_lookup` that replaces bootstrap servers by canonical names (Kerberos).
CANONICAL: Final = "resolve_canonical_bootstrap_servers_only"

Resolved = Callable[[list[ServerAddress] | Exception], None]


def proxy_of(url: str | None) -> Proxy | None:
    """Return the proxy of `proxy_url`."""
    if url is None:
        return None
    from tandem_kafka.network.proxies import Proxy  # noqa: PLC0415 - few consumers have one

    return Proxy.of(url)


class Resolver:
    """Looks up names; callers for the same name share one lookup.

    A lookup cannot be cancelled, but a caller may stop waiting for it. Without sharing, each
    attempt to connect would use another thread while the resolver hangs.

    Args:
        offloading: Runs the lookups, which may block.
        proxy: The proxy of all connections; its name is looked up too.
    """

    def __init__(self, offloading: Offloading, proxy: Proxy | None = None) -> None:
        self._offloading = offloading
        self._proxy = proxy
        self._waiting: dict[tuple[str, int, bool], list[Resolved]] = {}

    def resolve(self, host: str, port: int, done: Resolved, *, canonical: bool = False) -> None:
        """Call `done` on the network thread with all addresses or an error.

        A numeric host needs no lookup: `done` is called immediately, as for an invalid host.
        """
        problem = address_problem(host, port)
        if problem is not None:
            done(KafkaConnectionError(f"not connecting to {host}:{port}: {problem}"))
            return
        if self._proxy is None:
            self._resolve(host, port, done, canonical=canonical)
            return
        proxy = self._proxy
        through = partial(self._through, proxy, done)
        if proxy.remote_names:
            through([ServerAddress(host, host.removeprefix("[").removesuffix("]"), port)])
        else:
            self._resolve(host, port, through, canonical=canonical)

    def _through(
        self, proxy: Proxy, done: Resolved, servers: list[ServerAddress] | Exception
    ) -> None:
        """Look up the proxy, and call `done` with the servers' addresses via its addresses."""
        if isinstance(servers, Exception):
            done(servers)
            return

        def found(proxies: list[ServerAddress] | Exception) -> None:
            if isinstance(proxies, Exception):
                done(KafkaConnectionError(f"proxy_url: {proxies.args[0]}"))
                return
            hops = [(each.ip, each.port) for each in proxies]
            done([replace(server, via=hop) for server in servers for hop in hops])

        self._resolve(proxy.host, proxy.port, found)

    def _resolve(self, host: str, port: int, done: Resolved, *, canonical: bool = False) -> None:
        if not canonical and (ip := _numeric(host)) is not None:
            done([ServerAddress(host, ip, port)])
            return
        key = (host, port, canonical)
        if key in self._waiting:
            self._waiting[key].append(done)
            return
        self._waiting[key] = [done]
        look_up = _canonical_addresses if canonical else _addresses
        self._offloading.run(partial(look_up, host, port), partial(self._finished, key))

    def _finished(
        self, key: tuple[str, int, bool], result: list[ServerAddress] | BaseException
    ) -> None:
        host, port, _ = key
        for done in self._waiting.pop(key, ()):
            if isinstance(result, BaseException) or not result:
                reason = result or "it has no address"
                done(KafkaConnectionError(f"cannot resolve {host} (port {port}): {reason}"))
            else:
                done(list(result))


@lru_cache(maxsize=1_000)
def _numeric(host: str) -> str | None:
    ip = host.removeprefix("[").removesuffix("]")
    return ip if is_ipv4(ip) or is_ipv6(ip) else None


def _addresses(host: str, port: int) -> list[ServerAddress]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    # A dict keeps the resolver's order of preference and removes duplicates.
    ips = dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found)
    return [ServerAddress(host, ip, port) for ip in ips]


def _canonical_addresses(host: str, port: int) -> list[ServerAddress]:
    return [
        ServerAddress(_canonical_name(address), address.ip, port)
        for address in _addresses(host.removeprefix("[").removesuffix("]"), port)
    ]


def _canonical_name(address: ServerAddress) -> str:
    try:
        return socket.getnameinfo((address.ip, address.port), socket.NI_NAMEREQD)[0]
    except OSError:
        return address.host
