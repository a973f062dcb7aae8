"""One broker for all processes of a run: pytest-xdist would have each start one of its own.

The process that collects the reports starts a cluster when the first of the others asks for it, and
closes it after the last. What they get over a socket is a cluster for clients: addresses and
certificates, without the right to stop it.
"""

from __future__ import annotations

import secrets
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Client, Listener
from pathlib import Path
from typing import Any, Final

import pytest

from tandem_kafka_testing.kafka import RealKafka
from tests.kafka.listeners import secured_cluster
from tests.kafka.tokens import TokenIssuer

__all__ = ["SharedBrokers", "shared_broker"]

_INPUT: Final = "shared_brokers"


def _open(stack: ExitStack) -> tuple[RealKafka, None]:
    return stack.enter_context(RealKafka()), None


def _guarded(stack: ExitStack) -> tuple[RealKafka, TokenIssuer]:
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    issuer = TokenIssuer(Path(folder))
    return stack.enter_context(secured_cluster(issuer)), issuer


_KINDS: Final[Mapping[str, Callable[[ExitStack], tuple[RealKafka, Any]]]] = {
    "open": _open,
    "guarded": _guarded,
}


class SharedBrokers:
    """A pytest plugin, for the process that collects the reports."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._started: dict[str, tuple[RealKafka, Any] | RuntimeError] = {}
        self._key = secrets.token_bytes(16)
        self._listener: Listener | None = None
        self._thread = threading.Thread(target=self._serve, daemon=True)

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a process of pytest-xdist whom it asks."""
        if self._listener is None:
            self._listener = Listener(authkey=self._key)
            self._thread.start()
        node.workerinput[_INPUT] = (self._listener.address, self._key)

    def _serve(self) -> None:
        assert self._listener is not None
        while True:
            try:
                connection = self._listener.accept()
                with connection:
                    name = connection.recv()
                    if not name:
                        return
                    connection.send(self._of(name))
            except (OSError, EOFError):
                continue  # that process was killed

    def _of(self, name: str) -> tuple[RealKafka, Any] | RuntimeError:
        """Return the cluster, or why it could not be started."""
        if name not in self._started:
            try:
                self._started[name] = _KINDS[name](self._stack)
            except Exception as error:  # noqa: BLE001 - told where it was asked for
                self._started[name] = RuntimeError(f"{type(error).__name__}: {error}")
        return self._started[name]

    # Last: the processes of pytest-xdist have ended by then.
    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """Close what was started."""
        if self._listener is not None:
            _ask(self._listener.address, self._key, "")
            self._thread.join()
            self._listener.close()
        self._stack.close()


def _ask(address: Any, key: bytes, name: str) -> Any:
    with Client(address, authkey=key) as connection:
        connection.send(name)
        return connection.recv() if name else None


@contextmanager
def shared_broker(config: pytest.Config, name: str) -> Iterator[tuple[RealKafka, Any]]:
    """The cluster of that kind for all processes of this run, and what belongs to it.

    Raises:
        RuntimeError: It could not be started.
    """
    given = getattr(config, "workerinput", {}).get(_INPUT)
    if given is None:
        with ExitStack() as stack:
            yield _KINDS[name](stack)
        return
    address, key = given
    answer = _ask(address, key, name)
    if isinstance(answer, RuntimeError):
        raise answer
    yield answer
