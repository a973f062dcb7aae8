"""Serves the health of consumers by HTTP, for probes of Kubernetes, load balancers and people."""

from __future__ import annotations

import socket
from concurrent.futures import Future, wait
from functools import partial
from types import TracebackType
from typing import Self

from tandem_kafka.errors import InvalidArgumentError
from tandem_kafka.observability.probe_server import Checked, Server
from tandem_kafka.runtime import Runtime
from tandem_kafka.runtime.process import PROCESS

#: Connections that wait: probes and load balancers may come all at once.
_BACKLOG = 128
#: The server ends within a moment.
_END_S = 10.0


class Probe:
    """A small web server in a thread, until ``close()`` or the end of a ``with`` block.

    ``GET /live`` has the status 200 if all consumers are alive, ``GET /ready`` if all are ready,
    and 503 otherwise. The body is JSON: ``ok``, and the reasons by ``client_id``. A request never
    waits for a consumer.

    ``GET /`` is a page for people: group, partitions with position and lag, the lag of the last ten
    minutes, troubles, and the last rebalances. It has no values of records.

    A connection has five seconds. With more than 64 of them, the oldest is closed.

    Args:
        *consumers: The consumers, of either kind.
        port: The port; 0 takes a free one.
        host: The address to listen on. Only this machine can connect by default. In a container,
            probes come from outside: ``"0.0.0.0"`` takes all IPv4 addresses of the machine;
            ``"::"`` takes IPv6, and on most systems both.
        public_page: Serve the page to other machines, too. By default, they get the status 403.

    Attributes:
        port: The port.

    Raises:
        InvalidArgumentError: There is no consumer.
        OSError: The port is taken, or the address is not one of this machine.
        RuntimeError: The system cannot start another thread.
    """

    def __init__(
        self,
        *consumers: Checked,
        port: int = 8080,
        host: str = "127.0.0.1",
        public_page: bool = False,
    ) -> None:
        if not consumers:
            raise InvalidArgumentError("Probe() needs at least one consumer")
        runtime = Runtime.threaded()
        self._listener = _listen(host, port)
        self.port: int = self._listener.getsockname()[1]
        self._server = Server(consumers, runtime.clock, public_page=public_page)
        self._ended: Future[BaseException | None] = Future()
        self._pid = PROCESS.pid
        run = partial(self._server.run, self._listener)
        runtime.driver.offload(run, self._ended.set_result)
        if self._ended.done() and (error := self._ended.result()) is not None:
            self._listener.close()
            raise error

    def close(self) -> None:
        """Stop the server and close its socket; a fork of the process only has the socket."""
        if self._pid == PROCESS.pid:
            self._server.stop()
            wait([self._ended], _END_S)
        self._listener.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _listen(host: str, port: int) -> socket.socket:
    if ":" not in host:
        listener = socket.create_server((host, port), backlog=_BACKLOG)
    else:
        listener = socket.create_server(
            (host, port),
            family=socket.AF_INET6,
            backlog=_BACKLOG,
            dualstack_ipv6=host == "::" and socket.has_dualstack_ipv6(),
        )
    listener.setblocking(False)
    return listener
