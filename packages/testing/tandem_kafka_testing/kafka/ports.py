"""Free ports on the loopback interface, which no other process chooses at the same time."""

from __future__ import annotations

import os
import random
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

# Below the range of ephemeral ports: while a broker is down, no outgoing connection of another
# process takes its port, so the broker can use the port again.
_LOWEST, _HIGHEST = 15_000, 32_000
#: A process takes this many ports for itself, until it ends.
_BLOCK = 100
#: The locks of this process, which are released when it ends.
_held: list[int] = []
_ports: Iterator[int]
_choosing: threading.Lock


def free_ports(count: int) -> list[int]:
    """Return `count` different free ports, each only once in the life of this process."""
    with _choosing:
        return [next(_ports) for _ in range(count)]


def _candidates() -> Iterator[int]:
    blocks = range(_LOWEST, _HIGHEST, _BLOCK)
    for first in random.sample(blocks, len(blocks)):
        if _is_mine(first):
            yield from filter(_is_free, range(first, first + _BLOCK))
    raise RuntimeError(f"no free port between {_LOWEST} and {_HIGHEST}")


def _is_mine(first: int) -> bool:
    """Take a block of ports; False if another process has it."""
    try:
        import fcntl  # noqa: PLC0415 - not on Windows
    except ImportError:
        return True
    folder = Path(tempfile.gettempdir()) / f"tandem-kafka-ports-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    lock = os.open(folder / str(first), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return False
    _held.append(lock)
    return True


def _is_free(port: int) -> bool:
    with closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as probe:
        # Like the broker, so that a port with connections in TIME_WAIT counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _begin() -> None:
    """Choose from other ports than before: in a forked process, those are its parent's."""
    global _ports, _choosing
    _ports, _choosing = _candidates(), threading.Lock()


_begin()
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_begin)
