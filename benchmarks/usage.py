"""The CPU time and memory of a process."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

__all__ = ["cpu_s", "memory_mb", "peak_memory_mb"]

_STATUS = Path("/proc/self/status")


def cpu_s() -> float:
    """Return the CPU seconds of all threads of this process, in user code and in the kernel."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def peak_memory_mb() -> float:
    """Return the peak memory of this process in MiB."""
    # `ru_maxrss` would include the memory of the parent at the time of the fork.
    return _status("VmHWM") or _peak_of_family()


def memory_mb() -> float:
    """Return the memory of this process in MiB, or its peak if the system reports nothing else."""
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
