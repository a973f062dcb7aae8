"""Runs the Python blocks of one page: `python -m tests.docs.page_run PAGE KINDS BOOTSTRAP`.

The blocks share one namespace and run from top to bottom. A block that reads for ever is ended as a
person would end it, by Ctrl-C, after it has been handed some records. Blocks of Spark end by
themselves.
"""

from __future__ import annotations

import _thread
import contextlib
import sys
import threading
import time
import traceback
import weakref
from typing import Any, Self

from tandem_kafka import AsyncKafkaConsumer, KafkaConsumer
from tests.docs.pages import Block, blocks

#: A block that has been handed this many records has shown what it can do.
RECORDS = 20
DEADLINE_S = 40.0
#: A block that would end by itself has this time to do so, once it has been handed the records.
GRACE_S = 3.0
_PERIOD_S = 0.1

_consumers: weakref.WeakSet[KafkaConsumer[Any, Any]] = weakref.WeakSet()
_async_consumers: weakref.WeakSet[AsyncKafkaConsumer[Any, Any]] = weakref.WeakSet()


def _remember_consumers() -> None:
    start, start_async = KafkaConsumer._start, AsyncKafkaConsumer.start

    def remembering(self: KafkaConsumer[Any, Any], *arguments: Any, **named: Any) -> None:
        start(self, *arguments, **named)
        _consumers.add(self)

    async def remembering_async(self: AsyncKafkaConsumer[Any, Any]) -> None:
        await start_async(self)
        _async_consumers.add(self)

    KafkaConsumer._start = remembering  # type: ignore[method-assign]
    AsyncKafkaConsumer.start = remembering_async  # type: ignore[method-assign]


class Interruption:
    """Ends a block by KeyboardInterrupt in the main thread.

    Attributes:
        sent: Whether the block was interrupted.
        starved: Whether the block was interrupted although it had been handed nothing.
    """

    def __init__(self) -> None:
        self.sent = False
        self.starved = False
        self._ended = threading.Event()
        self._before = _records_handed_out()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not self._ended.wait(_PERIOD_S):
            handed = _records_handed_out() - self._before
            if handed >= RECORDS:
                deadline = min(deadline, time.monotonic() + GRACE_S)
            if time.monotonic() > deadline:
                self.starved = handed <= 0
                self.sent = True
                _thread.interrupt_main()
                return


def _records_handed_out() -> float:
    total = 0.0
    for consumer in (*_consumers, *_async_consumers):
        for group, metrics in consumer.metrics().items():
            if "fetch-manager" in group:
                total += metrics.get("records-consumed-total", 0.0)
    return total


def _run(block: Block, namespace: dict[str, Any], bootstrap: str) -> None:
    code = block.code.replace("localhost:9092", bootstrap)
    # Blank lines first, so that a traceback shows the line of the page.
    compiled = compile("\n" * (block.line - 1) + code, block.page, "exec")
    interruption = Interruption()
    try:
        with contextlib.nullcontext() if block.kind == "spark" else interruption:
            exec(compiled, namespace)  # noqa: S102 - that is what this module is for
    except KeyboardInterrupt:
        if not interruption.sent or interruption.starved:
            raise
        for consumer in list(_consumers):
            consumer.close()


def main() -> int:
    """Run the page; returns the exit code."""
    page, kinds, bootstrap = sys.argv[1:]
    _remember_consumers()
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(page):
        if block.kind not in kinds.split(","):
            continue
        try:
            _run(block, namespace, bootstrap)
        except BaseException:  # noqa: BLE001 - also SystemExit and a Ctrl-C that came too early
            traceback.print_exc()
            print(f"{block.page}:{block.line}: the block failed", file=sys.stderr)
            return 1
    for consumer in list(_consumers):
        consumer.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
