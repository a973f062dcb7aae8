"""Detects that the files of the TLS options have changed, so that new connections use them."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

from tandem_kafka.config import Config
from tandem_kafka.config.options import TLS_FILES
from tandem_kafka.errors import KafkaConfigurationError, reason_of
from tandem_kafka.logs import client_logger

log = client_logger(__name__)

T = TypeVar("T")

#: What changes if a file is written again or replaced, also behind a symbolic link.
_Mark = tuple[int, int, int] | None


class TlsFiles:
    """The state of the files when they were last read.

    They are examined before each new connection. That costs a few system calls, and only a changed
    file is read again.
    """

    def __init__(self, settings: Config) -> None:
        unused = settings.ssl_context is not None or not settings.security_protocol.endswith("SSL")
        paths = {name: getattr(settings, name) for name in TLS_FILES}
        self._paths: dict[str, str] = (
            {} if unused else {name: path for name, path in paths.items() if path is not None}
        )
        self._marks = self._examine()

    def _examine(self) -> dict[str, _Mark]:
        return {name: _mark(path) for name, path in self._paths.items()}

    def reload(self, read: Callable[[], T]) -> T | None:
        """Return the result of `read` if a file has changed and can be used, else None.

        A certificate and its key are rarely replaced at the same moment. Files that cannot be used
        together are therefore read again when they change again.
        """
        marks = self._examine()
        if marks == self._marks:
            return None
        changed = ", ".join(name for name, mark in marks.items() if mark != self._marks[name])
        self._marks = marks
        try:
            result = read()
        except (KafkaConfigurationError, OSError) as error:
            reason = reason_of(error)
            log.warning("%s changed, but cannot be used; keeping the old: %s", changed, reason)
            return None
        log.info("%s changed: new connections use the new content", changed)
        return result


def _mark(path: str) -> _Mark:
    try:
        found = os.stat(path)  # noqa: PTH116 - called for each connection
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
