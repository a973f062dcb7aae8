"""The metadata of classic consumers in JoinGroup, for raw members."""

from __future__ import annotations

from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

__all__ = ["subscription_metadata"]


def subscription_metadata(topics: list[str], *owned: tuple[str, int]) -> bytes:
    """Return the metadata of a cooperative consumer with a subscription and partitions."""
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
