"""How many files and sockets this process has open."""

from __future__ import annotations

from pathlib import Path
from typing import Final

#: The system's list of them, where it has one.
OPEN_FILES: Final = Path("/dev/fd")


def open_files() -> int:
    """Return how many there are, or 0 where the system does not tell.

    Those of clients of other tests, which reconnect, come and go: the lowest count is returned.
    """
    return min(len(list(OPEN_FILES.iterdir())) for _ in range(100)) if OPEN_FILES.is_dir() else 0
