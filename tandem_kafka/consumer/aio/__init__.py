"""Kafka consumers for asyncio.

``AsyncKafkaConsumer`` is ``KafkaConsumer`` with awaitable methods. Its network thread keeps the
membership alive even while the event loop is blocked. A cancelled call returns no record and
moves no position. `tasks.py` is how its calls wait, and `streams.py` what `async for` iterates
over. ``AsyncShareConsumer`` is for share groups.
"""
