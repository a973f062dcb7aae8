"""What classic consumers say in JoinGroup, for members that say it by hand."""

from __future__ import annotations

from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

__all__ = ["said"]


def said(topics: list[str], *owned: tuple[str, int]) -> bytes:
    """Return what a cooperative consumer says that subscribes to topics and has partitions."""
    entry = ConsumerProtocolSubscription.TopicPartition
    message = ConsumerProtocolSubscription(
        version=3,
        topics=topics,
        user_data=b"",
        owned_partitions=[entry(topic=topic, partitions=[number]) for topic, number in owned],
        generation_id=-1,
        rack_id=None,
    )
    return bytes(message.encode())
