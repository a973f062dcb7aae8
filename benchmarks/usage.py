"""What a process has used: CPU time and memory."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

__all__ = ["cpu_s", "peak_memory_mb"]

_STATUS = Path("/proc/self/status")


def cpu_s() -> float:
    """CPU seconds of all threads of this process so far, in user code and in the kernel."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def peak_memory_mb() -> float:
    """The most memory this process has ever held, in MB."""
    # `ru_maxrss` would count the memory of the parent too, as it was at the fork.
    if _STATUS.exists():
        for line in _STATUS.read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    scale = 1024 * 1024 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / scale
