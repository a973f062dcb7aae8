"""A member as `tests.chaos.member` is one, for asyncio; calls are cancelled now and then."""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import Any

from tandem_kafka.aio import AsyncKafkaConsumer
from tandem_kafka.errors import CorruptRecordError
from tests.chaos.member import (
    COMMIT_ERRORS,
    ReportingListener,
    options_of,
    report,
    report_read,
)


async def take(consumer: AsyncKafkaConsumer[Any, Any]) -> bool:
    """Poll once and report the records; returns whether there were any."""
    try:
        async with asyncio.timeout(0.15):  # cancels the longest polls
            batch = await consumer.poll(timeout_ms=200)
    except TimeoutError:
        return False
    except CorruptRecordError as error:
        report("corrupt", str(error))
        for tp in consumer.assignment():
            consumer.seek(tp, await consumer.position(tp))  # fetch them again
        return False
    report_read(batch)
    return bool(batch)


async def main(bootstrap: str, topic: str, protocol: str, commits: str) -> None:
    """Read until SIGTERM."""
    options = options_of(bootstrap, topic, protocol)
    consumer = AsyncKafkaConsumer[Any, Any](**options, enable_auto_commit=commits == "automatic")
    await consumer.start()
    ending = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ending.set)
    await consumer.subscribe([topic], listener=ReportingListener())
    report("began")
    while not ending.is_set():
        if await take(consumer) and commits == "by hand":
            try:
                await consumer.commit(timeout_ms=5_000)
            except COMMIT_ERRORS as error:
                report("commit failed", type(error).__name__)
    report("closing")
    await consumer.close()
    report("ended")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
