"""What a process has used: CPU time and memory."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

__all__ = ["cpu_s", "memory_mb", "peak_memory_mb"]

_STATUS = Path("/proc/self/status")


def cpu_s() -> float:
    """CPU seconds of all threads of this process so far, in user code and in the kernel."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def peak_memory_mb() -> float:
    """The most memory this process has ever held, in MiB."""
    # `ru_maxrss` would count the memory of the parent too, as it was at the fork.
    return _status("VmHWM") or _peak_of_family()


def memory_mb() -> float:
    """The memory this process holds now, in MiB; its peak where the system does not tell."""
    return _status("VmRSS") or _peak_of_family()


def _status(name: str) -> float | None:
    if _STATUS.exists():
        for line in _STATUS.read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) / 1024
    return None


def _peak_of_family() -> float:
    scale = 1024 * 1024 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / scale
