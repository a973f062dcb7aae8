"""The processes of a Spark job, read from /proc."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

__all__ = [
    "commands",
    "connections",
    "descendants",
    "executor_of",
    "is_running",
    "runs_tasks",
    "workers",
]

_DAEMON = b"pyspark.daemon"


def workers(root: int | None = None) -> Iterator[Path]:
    """Yield the Python processes started by a driver's JVM, below this process or `root`."""
    family = {os.getpid() if root is None else root}
    for _ in range(4):
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit() and int(folder.name) not in family:
                try:
                    parent, command = _parent(folder), _command(folder)
                except OSError:
                    continue
                if parent in family:
                    family.add(int(folder.name))
                    if _DAEMON in command or b"source_runner" in command:
                        yield folder


def commands() -> list[list[str]]:
    """Return the command lines of all processes below this one."""
    found = {}
    parents = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                parents[int(folder.name)] = _parent(folder)
                found[int(folder.name)] = _command(folder)
    below = descendants(os.getpid(), parents)
    return [found[pid].decode(errors="replace").split("\0") for pid in below if pid in found]


def descendants(root: int, parents: Mapping[int, int]) -> set[int]:
    """Return the descendants of `root`; `parents` has the parent of each process."""
    family = {root}
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    return family - {root}


def runs_tasks(folder: Path) -> bool:
    """Return whether a process is a child of the task daemon; planning has separate daemons."""
    try:
        return _is_of_tasks(_command(folder)) and _is_of_tasks(
            _command(Path(f"/proc/{_parent(folder)}"))
        )
    except OSError:
        return False


def executor_of(pid: int) -> int:
    """Return the JVM of the executor to which a worker belongs."""
    while pid > 1:
        folder = Path(f"/proc/{pid}")
        if b"CoarseGrainedExecutorBackend" in _command(folder):
            return pid
        pid = _parent(folder)
    raise LookupError("not a process of an executor")


def _is_of_tasks(command: bytes) -> bool:
    """Return whether a command is `python -m pyspark.daemon pyspark.worker`."""
    words = command.split(b"\0")
    return _DAEMON in words and b"pyspark.worker" in words


def is_running(folder: Path) -> bool:
    """Return whether a process is running, or waits for a disk."""
    try:
        return (folder / "stat").read_text().rpartition(")")[2].split()[0] in "RD"
    except OSError:
        return False


def connections(port: int) -> set[tuple[str, str]]:
    """Return the workers' connections to a port, as pairs of process and socket."""
    lines = [
        line.split()
        for table in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]
    ]
    there = {f"socket:[{line[9]}]" for line in lines if line[2].endswith(f":{port:04X}")}
    found = set()
    for folder in workers():
        with contextlib.suppress(OSError):
            for descriptor in (folder / "fd").iterdir():
                with contextlib.suppress(OSError):
                    target = str(descriptor.readlink())
                    if target in there:
                        found.add((folder.name, target))
    return found


def _parent(folder: Path) -> int:
    return int((folder / "stat").read_text().rpartition(")")[2].split()[1])


def _command(folder: Path) -> bytes:
    return (folder / "cmdline").read_bytes()
