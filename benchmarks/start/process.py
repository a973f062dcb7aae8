"""The process of a client: it measures itself, and prints its figures as JSON.

It imports nothing but what it measures, and some of the standard library that Python has imported
anyway.
"""

import sys
import time

__all__: list[str] = []

_NS_PER_MS = 1_000_000
_POLL_S = 1
_PLACES = ("beginning", "offset")


def _memory_mb() -> float:
    with open("/proc/self/status", encoding="ascii") as status:  # noqa: PTH123 - before any import
        (resident,) = (line.split()[1] for line in status if line.startswith("VmRSS"))
    return int(resident) / 1024


def _import(client: str) -> None:
    """Import the classes that `_read` uses."""
    if client == "tandem":
        import tandem_kafka

        tandem_kafka.KafkaConsumer  # noqa: B018 - imported when it is first used
    elif client == "kafka-python":
        import kafka  # noqa: F401
    elif client == "aiokafka":
        import aiokafka  # noqa: F401
    else:
        import confluent_kafka  # noqa: F401


def _read(client: str, bootstrap: str, topic: str, partitions: int, start: str) -> object:
    """Open a consumer, and read the first record; returns what closes it."""
    if client == "aiokafka":
        return _read_aiokafka(bootstrap, topic, start)
    if client == "confluent":
        return _read_confluent(bootstrap, topic, partitions, start)
    group = "" if start in _PLACES else start
    package = sys.modules["tandem_kafka" if client == "tandem" else "kafka"]
    consumer = package.KafkaConsumer(
        bootstrap_servers=bootstrap, group_id=group or None, auto_offset_reset="earliest"
    )
    if group:
        consumer.subscribe([topic])
    else:
        assigned = [package.TopicPartition(topic, number) for number in range(partitions)]
        consumer.assign(assigned)
        if start == "offset":
            for each in assigned:
                consumer.seek(each, 0)
    while not consumer.poll(_POLL_S * 1000):
        pass
    close: object = consumer.close
    return close


def _read_confluent(bootstrap: str, topic: str, partitions: int, start: str) -> object:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    assigned = start in _PLACES
    options = {"group.id": "unused" if assigned else start, "auto.offset.reset": "earliest"}
    consumer = Consumer({"bootstrap.servers": bootstrap, **options})
    if assigned:
        offset = 0 if start == "offset" else OFFSET_BEGINNING
        consumer.assign([TopicPartition(topic, number, offset) for number in range(partitions)])
    else:
        consumer.subscribe([topic])
    while True:
        message = consumer.poll(_POLL_S)
        if message is not None and message.error() is None:
            return consumer.close


def _read_aiokafka(bootstrap: str, topic: str, start: str) -> object:
    import asyncio

    from aiokafka import AIOKafkaConsumer, TopicPartition

    group = "" if start in _PLACES else start

    async def read() -> AIOKafkaConsumer:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap, group_id=group or None, auto_offset_reset="earliest"
        )
        if group:
            consumer.subscribe([topic])
        else:
            consumer.assign([TopicPartition(topic, 0)])
        await consumer.start()
        await consumer.getone()
        return consumer

    loop = asyncio.new_event_loop()
    consumer = loop.run_until_complete(read())
    return lambda: loop.run_until_complete(consumer.stop())


def main() -> None:
    """Run as `process.py <client> <started> <bootstrap> <topic> <partitions> <start>`.

    No topic: only the imports. `started` is when the process was started, in ns of the clock that
    all processes have. `start` is a group, or where an assigned consumer begins: at the
    "beginning", which it asks the broker for, or at the "offset" 0.
    """
    client, started, bootstrap, topic, partitions, start = sys.argv[1:]
    modules, memory, cpu = len(sys.modules), _memory_mb(), time.process_time_ns()
    _import(client)
    figures, close = {}, None
    if topic:
        began = time.monotonic_ns()
        close = _read(client, bootstrap, topic, int(partitions), start)
        read = time.monotonic_ns()
        figures["with_construction_ms"] = (read - began) / _NS_PER_MS
        figures["first_record_ms"] = (read - int(started)) / _NS_PER_MS
    figures["start_cpu_ms"] = (time.process_time_ns() - cpu) / _NS_PER_MS
    figures["modules"] = len(sys.modules) - modules
    figures["memory_mb"] = _memory_mb() - memory
    if callable(close):
        began = time.monotonic_ns()
        close()
        figures["close_ms"] = (time.monotonic_ns() - began) / _NS_PER_MS
    import json

    print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    main()
