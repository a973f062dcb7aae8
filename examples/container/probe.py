"""The liveness probe: fails if the loop of consume.py makes no progress.

It does not fail if the brokers are down: poll() returns anyway, and a restart would not help.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

#: Longer than the longest batch.
LIMIT_SECONDS = float(os.environ.get("LIMIT_SECONDS", "300"))


def main() -> None:
    """Exit with 0 if the file is young, with a message and 1 if not."""
    alive = Path(os.environ.get("ALIVE_FILE", "alive"))
    if not alive.exists():
        raise SystemExit(f"{alive} does not exist")
    age = time.time() - alive.stat().st_mtime
    if age > LIMIT_SECONDS:
        raise SystemExit(f"no batch for {age:.0f} s")


if __name__ == "__main__":
    main()
