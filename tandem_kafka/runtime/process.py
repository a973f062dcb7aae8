"""The process id, without a system call for each record."""

from __future__ import annotations

import os
from typing import Final


class _Process:
    """Caches the process id.

    Attributes:
        pid: The id of this process. A fork of another one has its own.
    """

    __slots__ = ("pid",)

    def __init__(self) -> None:
        self._update()
        if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork()
            os.register_at_fork(after_in_child=self._update)

    def _update(self) -> None:
        self.pid = os.getpid()


PROCESS: Final = _Process()
