"""The user data that the sticky assignors of members send to the leader.

`sticky` sends the previous assignment and, since version 1, its generation. `cooperative-sticky`
only sends the generation, because the subscription has the owned partitions. The format is that of
the Java client. kafka-python 3.0 adds a version before that of `sticky`, and reads no other.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterable

from tandem_kafka.assignors.group import NO_GENERATION
from tandem_kafka.types import TopicPartition

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
#: The prefix in kafka-python. The Java client starts with the number of topics, below 65,536.
_VERSION = b"\x00\x01"


def encode_sticky_user_data(
    owned: Iterable[TopicPartition], generation: int, *, for_kafka_python: bool = False
) -> bytes:
    """Return the user data of `sticky`, version 1.

    Args:
        owned: The previous assignment.
        generation: Its generation.
        for_kafka_python: Whether the leader uses kafka-python.
    """
    by_topic: dict[str, list[int]] = defaultdict(list)
    for tp in sorted(owned):
        by_topic[tp.topic].append(tp.partition)
    parts = [_VERSION if for_kafka_python else b"", _INT32.pack(len(by_topic))]
    for topic, numbers in by_topic.items():
        name = topic.encode()
        parts += [_INT16.pack(len(name)), name]
        parts.append(struct.pack(f">{len(numbers) + 1}i", len(numbers), *numbers))
    return b"".join([*parts, _INT32.pack(generation)])


def decode_sticky_user_data(data: bytes | None) -> tuple[list[TopicPartition], int]:
    """Return the partitions that a member of `sticky` owned, and their generation.

    Invalid user data mean that the member owns nothing.
    """
    try:
        return _read_sticky(bytes(data or b""))
    except (struct.error, ValueError):
        return [], NO_GENERATION


def encode_cooperative_user_data(generation: int) -> bytes:
    """Return the user data of `cooperative-sticky`."""
    return _INT32.pack(generation)


def decode_cooperative_user_data(data: bytes | None) -> int:
    """Return the generation of a member of `cooperative-sticky`, or -1 if unknown.

    librdkafka sends the user data of `sticky` with both assignors.
    """
    if data is not None and len(data) == _INT32.size:
        generation: int = _INT32.unpack(data)[0]
        return generation
    return decode_sticky_user_data(data)[1]


def _read_sticky(data: bytes) -> tuple[list[TopicPartition], int]:
    owned: list[TopicPartition] = []
    at = len(_VERSION) if data.startswith(_VERSION) else 0
    (topics,) = _INT32.unpack_from(data, at)
    at += _INT32.size
    for _ in range(topics):
        (length,) = _INT16.unpack_from(data, at)
        (name,) = struct.unpack_from(f">{length}s", data, at + _INT16.size)
        at += _INT16.size + length
        (count,) = _INT32.unpack_from(data, at)
        numbers = struct.unpack_from(f">{count}i", data, at + _INT32.size)
        at += _INT32.size * (1 + count)
        topic = name.decode()
        owned += [TopicPartition(topic, number) for number in numbers]
    # Version 0 ends here.
    generation = _INT32.unpack_from(data, at)[0] if at < len(data) else NO_GENERATION
    return owned, generation
