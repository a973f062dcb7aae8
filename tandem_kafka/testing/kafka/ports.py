"""Free ports on the loopback interface."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from contextlib import closing

# Below the range of ephemeral ports: while a broker is down, no outgoing connection of another
# process takes its port, so the broker can use the port again.
_LOWEST, _HIGHEST = 15_000, 32_000


def free_ports(count: int) -> list[int]:
    """Return `count` different free ports."""
    ports = _candidates()
    return [next(ports) for _ in range(count)]


def _candidates() -> Iterator[int]:
    for port in random.sample(range(_LOWEST, _HIGHEST), _HIGHEST - _LOWEST):
        if _is_free(port):
            yield port
    raise RuntimeError(f"no free port between {_LOWEST} and {_HIGHEST}")


def _is_free(port: int) -> bool:
    with closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as probe:
        # Like the broker, so that a port with connections in TIME_WAIT counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
