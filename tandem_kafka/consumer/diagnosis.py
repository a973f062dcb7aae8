"""The diagnosis of a consumer as text: its health, its options and the stacks of all threads."""

from __future__ import annotations

import signal
import sys
import traceback
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import TYPE_CHECKING, TextIO

from tandem_kafka.consumer.concurrent_calls import WithCore
from tandem_kafka.consumer.core import Core
from tandem_kafka.consumer.known_cores import health_of, known_cores, subscription_of
from tandem_kafka.runtime import Runtime
from tandem_kafka.runtime.callers import thread_names
from tandem_kafka.runtime.native import implementation
from tandem_kafka.types import TopicPartition
from tandem_kafka.version import __version__

if TYPE_CHECKING:
    from tandem_kafka.consumer.health import Health, PartitionHealth


def diagnose(core: Core) -> str:
    """Return the diagnosis; any thread may call this, and it waits for nothing."""
    health = health_of(core)
    lines = [
        f"tandem-kafka {__version__} ({implementation()}): consumer {health.client_id!r}",
        _verdict("alive", health.not_alive),
        _verdict("ready", health.not_ready),
        f"subscription: {subscription_of(core)}",
        *_group(core, health),
        *_activity(health),
        *(f"trouble: {trouble}" for trouble in health.troubles),
        *_partitions(health.partitions),
        "options:",
        *(f"  {option}" for option in core.config.changed()),
        "",
        *_stacks(core),
    ]
    return "\n".join(core.client.secrets.line(line, keep="\n\t") for line in lines)


def _verdict(what: str, reasons: tuple[str, ...]) -> str:
    return f"{what}: yes" if not reasons else f"{what}: NO, {'; '.join(reasons)}"


def _group(core: Core, health: Health) -> Iterator[str]:
    if health.group_id is None:
        return
    group = core.engine.group
    coordinator = "unknown" if group.coordinator is None else str(group.coordinator)
    yield (
        f"group {health.group_id!r}: state {group.metadata.state}, member {health.member_id!r}, "
        f"generation {health.generation_id}, coordinator {coordinator}"
    )
    if health.rebalance_ms is not None:
        yield f"a rebalance is in progress for {health.rebalance_ms / 1000:.1f} s"


def _activity(health: Health) -> Iterator[str]:
    yield (
        f"last poll {_ago(health.poll_ms)} (after {health.handler_ms / 1000:.1f} s outside of it), "
        f"accepted heartbeat {_ago(health.heartbeat_ms)}, "
        f"accepted fetch {_ago(health.fetch_ms)}, stored commit {_ago(health.commit_ms)}"
    )
    yield (
        f"buffer {health.buffer_bytes:,} of {health.buffer_limit_bytes:,} bytes; requests: "
        f"{health.requests_queued} queued, {health.requests_in_flight} in flight"
    )


def _ago(age_ms: int | None) -> str:
    return "never" if age_ms is None else f"{age_ms / 1000:.1f} s ago"


def _partitions(partitions: Mapping[TopicPartition, PartitionHealth]) -> Iterator[str]:
    yield f"assigned partitions: {len(partitions)}"
    for tp, each in partitions.items():
        position = "unknown" if each.position is None else each.position
        lag = "unknown" if each.lag is None else each.lag
        stuck = "" if each.stuck is None else f", stuck: {each.stuck}"
        yield f"  {tp.topic}-{tp.partition}: position {position}, lag {lag}{stuck}"


def _stacks(core: Core) -> Iterator[str]:
    """Return the stacks of all threads of the process: first those that use the consumer."""
    names = thread_names()
    frames = sys._current_frames()  # noqa: SLF001 - documented
    ranks = {
        ident: _rank(core, ident, names.get(ident, ""), frame) for ident, frame in frames.items()
    }
    for ident in sorted(frames, key=ranks.__getitem__):
        yield f"thread {names.get(ident, str(ident))}:"
        yield "".join(traceback.format_stack(frames[ident])).rstrip()
        yield ""


def _rank(core: Core, ident: int, name: str, frame: FrameType) -> int:
    """Return the place of a thread: a handler is looked for, so that of the reader is first."""
    if ident == core.reader:
        return 0
    if name.startswith("tandem-kafka-"):  # of this package
        return 4
    if any(_uses(each, core) for each, _ in traceback.walk_stack(frame)):
        return 1
    return 2 if name == "MainThread" else 3


def _uses(frame: FrameType, core: Core) -> bool:
    """Tell whether a function of the application has the consumer in a local variable."""
    return not str(frame.f_globals.get("__name__")).startswith("tandem_kafka.") and any(
        isinstance(each, WithCore) and vars(each).get("_core") is core
        for each in tuple(frame.f_locals.values())
    )


def diagnose_on_signal(
    number: int = getattr(signal, "SIGUSR1", 0), file: TextIO | None = None
) -> None:
    """Print the diagnosis of every open consumer of this process when it receives a signal.

    A thread waits for the signal. It thus also prints while the main thread is stuck in a handler
    or in C code. Call this in the main thread, before other threads are started: threads that
    exist already must not receive the signal.

    Args:
        number: The signal, SIGUSR1 by default.
        file: Where to print, ``sys.stderr`` by default.

    Raises:
        ValueError: This is not the main thread, or the system has no such signal.
    """
    # A thread that does not block the signal would otherwise end the process.
    signal.signal(number, lambda *_: _print_all(file))
    signal.pthread_sigmask(signal.SIG_BLOCK, {number})

    def wait() -> None:
        while True:
            signal.sigwait({number})
            _print_all(file)

    Runtime.threaded().driver.offload(wait, lambda _: None)


def _print_all(file: TextIO | None) -> None:
    texts = [diagnose(core) for core in known_cores() if not core.closed]
    texts = texts or ["no consumer exists in this process"]
    print("\n\n".join(texts), file=file or sys.stderr, flush=True)
