"""Profiles a reader: its threads, function by function.

`make profile` samples the process with py-spy, which shows Python and native code. `--tool
cprofile` counts calls of Python functions instead, and needs no extra package.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.child import Task
from benchmarks.plan import FULL, SIZES
from benchmarks.readers.catalogue import ARROW, OURS, PYTHON
from benchmarks.topics import Sources
from tandem_kafka_testing.kafka import RealKafka

__all__ = ["Thread", "main", "threads_of"]

_BATCH_BYTES = 16_384
_PER_SECOND = 500
_IMPORTING = "_find_and_load"
#: The end of Rust's mangled names.
_HASH = re.compile(r"(::h[0-9a-f]{16})(?= |$)")


@dataclass(slots=True)
class Thread:
    """The samples of one thread.

    Attributes:
        samples: The number of samples.
        within: The number of samples with a function anywhere in the stack.
        inside: The number of samples in which the function itself runs.

    """

    samples: int = 0
    within: Counter[str] = field(default_factory=Counter)
    inside: Counter[str] = field(default_factory=Counter)


def threads_of(stacks: Iterable[str]) -> dict[str, Thread]:
    """Sum the stacks of py-spy's raw format by thread, without imports."""
    threads: dict[str, Thread] = defaultdict(Thread)
    for line in stacks:
        stack, _, count = line.rpartition(" ")
        first, *frames = (_HASH.sub("", frame) for frame in stack.split(";"))
        if frames and not any(frame.startswith(_IMPORTING) for frame in frames):
            # A thread has no name in its first moments.
            thread = threads[first.partition(": ")[2] or "before threads had names"]
            thread.samples += int(count)
            thread.inside[frames[-1]] += int(count)
            thread.within.update(dict.fromkeys(frames, int(count)))
    return threads


def _report(threads: Mapping[str, Thread], lines: int) -> None:
    for name, thread in sorted(threads.items(), key=lambda item: -item[1].samples):
        print(f"\n{name}: {thread.samples} samples")
        for heading, counts in (("running", thread.inside), ("running or calling", thread.within)):
            print(f"  {heading}")
            for function, count in counts.most_common(lines):
                print(f"    {count / thread.samples:6.1%}  {function}")


def main() -> int:
    """Run as `python -m benchmarks.profile`."""
    arguments = _parser().parse_args()
    with RealKafka(jvm_options=("-Xmx1g",)) as cluster:
        sources = Sources(cluster, FULL, _BATCH_BYTES)
        source = (
            sources.encrypted(arguments.size) if arguments.tls else sources.plain(arguments.size)
        )
        task = Task("throughput", arguments.reader, source, count=FULL.records[arguments.size])
        if arguments.tool == "cprofile" or _spy() is None:
            return subprocess.run(_child("benchmarks.calls", task), check=False).returncode
        return _sample(task, arguments)


def _sample(task: Task, arguments: argparse.Namespace) -> int:
    spy = _spy()
    if spy is None:
        raise RuntimeError(
            "py-spy is not installed: run pip install py-spy, or use --tool cprofile"
        )
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "stacks")
        options = ["--threads", "--format", "raw", "--rate", str(_PER_SECOND)]
        if arguments.idle:
            options.append("--idle")
        if sys.platform == "linux":
            options.append("--native")
        command = [spy, "record", *options, "--output", str(output), "--"]
        done = subprocess.run(
            [*command, *_child("benchmarks.child", task)],
            check=False,
            capture_output=True,
            text=True,
        )
        if done.returncode or not output.exists():
            print(done.stdout, done.stderr, file=sys.stderr)
            return 1
        print(next(line for line in done.stdout.splitlines() if line.startswith("{")))
        _report(threads_of(output.read_text(encoding="utf-8").splitlines()), arguments.lines)
    return 0


def _child(module: str, task: Task) -> list[str]:
    return [sys.executable, "-m", module, task.to_json()]


def _spy() -> str | None:
    return shutil.which("py-spy", path=str(Path(sys.executable).parent)) or shutil.which("py-spy")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profile", description=__doc__)
    parser.add_argument("--size", type=int, choices=SIZES, default=1000, help="of the values")
    parser.add_argument("--reader", choices=[OURS, ARROW, PYTHON], default=OURS)
    parser.add_argument("--tls", action="store_true", help="encrypted")
    parser.add_argument("--tool", choices=["py-spy", "cprofile"], default="py-spy")
    parser.add_argument("--idle", action="store_true", help="also samples of waiting threads")
    parser.add_argument("--lines", type=int, default=15, help="of each table")
    return parser


if __name__ == "__main__":
    sys.exit(main())
