"""Requests that a consumer has no call for, through kafka-python's admin client and producer."""

from __future__ import annotations

import tandem_kafka.runtime.kafka_python  # noqa: F401 - before any module of kafka-python

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kafka import KafkaAdminClient, KafkaProducer

from tandem_kafka.cli.groups import DEAD, Group, ListedGroup, classic_group, consumer_group
from tandem_kafka.config import Config
from tandem_kafka.errors import GroupAuthorizationFailedError, for_code
from tandem_kafka.types import OffsetAndMetadata, TopicPartition
from tandem_kafka.wire.messages import ConsumerGroupDescribeRequest, HeartbeatRequest

#: How kafka-python's client begins the text of a group's error.
_CODE: Final = re.compile(r"\[Error (-?\d+)\]")
#: GROUP_ID_NOT_FOUND.
_NOT_FOUND: Final = 69


def _known_options(options: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a connection that another client of kafka-python has as well."""
    config = Config.from_options(options)
    chosen = {name: getattr(config, name) for name in options if name in known}
    chosen["bootstrap_servers"] = [
        f"{_bracketed(host)}:{port}" for host, port in config.bootstrap_servers
    ]
    # Without an end, the constructor would wait for ever for a broker that is down.
    chosen["bootstrap_timeout_ms"] = config.bootstrap_timeout_ms
    return chosen


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def producer(options: Mapping[str, Any], **more: Any) -> Any:
    """Return kafka-python's producer for the cluster of a consumer's options."""
    return KafkaProducer(**_known_options(options, KafkaProducer.DEFAULT_CONFIG), **more)


class Administration:
    """A client for administration.

    Args:
        options: The options of a consumer on the same cluster.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        known = _known_options(options, KafkaAdminClient.DEFAULT_CONFIG)
        self._client = KafkaAdminClient(**known)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def groups(self) -> list[ListedGroup]:
        """Return the groups of all coordinators, by name."""
        return sorted(
            (
                ListedGroup(
                    each["group_id"],
                    (each.get("group_type") or "classic").lower(),
                    each["protocol_type"],
                    each.get("group_state") or "",
                )
                for each in self._client.list_groups()
            ),
            key=lambda group: group.group_id,
        )

    def describe(self, groups: Sequence[ListedGroup]) -> list[Group]:
        """Return the groups with their members; one that does not exist has the state `Dead`.

        Raises:
            KafkaError: A coordinator does not describe a group.
        """
        self._forget_coordinators()
        modern = [each.group_id for each in groups if each.protocol == "consumer"]
        classic = [each.group_id for each in groups if each.protocol != "consumer"]
        found: list[Group] = []
        if classic:
            for described in self._client.describe_groups(classic).values():
                code = _CODE.match(described["error"] or "")
                if code and int(code[1]) != _NOT_FOUND:
                    raise for_code(int(code[1]))(described["group_id"])
                found.append(classic_group(described))
        if modern:
            # kafka-python's client has no call for KIP-848 groups.
            found += self._client._manager.run(self._describe_consumer_groups, modern)  # noqa: SLF001
        return sorted(found, key=lambda group: group.group_id)

    def _forget_coordinators(self) -> None:
        """Look the coordinators up again: kafka-python's client keeps one that has moved."""
        self._client._manager.cluster._coordinators.clear()  # noqa: SLF001

    async def _describe_consumer_groups(self, group_ids: Sequence[str]) -> list[Group]:
        by_node: dict[int, list[str]] = defaultdict(list)
        coordinators = await self._client._find_coordinator_ids(group_ids)  # noqa: SLF001
        for group_id, node_id in coordinators.items():
            by_node[node_id].append(group_id)
        found = []
        for node_id, ids in by_node.items():
            request = ConsumerGroupDescribeRequest(
                group_ids=ids, include_authorized_operations=False, max_version=1
            )
            response = await self._client._manager.send(request, node_id=node_id)  # noqa: SLF001
            for described in response.groups:
                if described.error_code == _NOT_FOUND:
                    found.append(Group(described.group_id, "consumer", DEAD, ""))
                    continue
                if described.error_code:
                    raise for_code(described.error_code)(
                        f"{described.group_id}: {described.error_message or ''}"
                    )
                found.append(consumer_group(described))
        return found

    def committed(self, group_id: str) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the committed offsets of a group; empty if it has none."""
        found = self._client.list_group_offsets({group_id: None})[group_id]
        return {
            TopicPartition(*tp): OffsetAndMetadata(each.offset, each.metadata, each.leader_epoch)
            for tp, each in sorted(found.items())
            if each.offset >= 0
        }

    def sizes(self, topic: str | None = None) -> dict[TopicPartition, int]:
        """Return the bytes of each partition's largest replica."""
        sizes: dict[TopicPartition, int] = {}
        for broker in self._client.describe_log_dirs([topic] if topic is not None else None):
            for folder in broker["log_dirs"]:
                for each in folder["topics"]:
                    for partition in each["partitions"]:
                        tp = TopicPartition(each["name"], partition["partition_index"])
                        sizes[tp] = max(sizes.get(tp, 0), partition["partition_size"])
        return sizes

    def coordinator(self, group_id: str) -> int:
        """Return the ID of the group's coordinator.

        Raises:
            KafkaError: There is none, or this user may not describe the group.
        """
        client = self._client
        found: dict[str, int] = client._manager.run(client._find_coordinator_ids, [group_id])  # noqa: SLF001
        return found[group_id]

    def may_join(self, group_id: str, coordinator: int) -> bool:
        """Tell whether this user may read the group, as its members must.

        The coordinator checks this right before the member id, so a heartbeat with an unknown
        member id is enough.
        """
        request = HeartbeatRequest(
            group_id=group_id, generation_id=-1, member_id="doctor", max_version=3
        )
        manager = self._client._manager  # noqa: SLF001
        response = manager.run(manager.send, request, coordinator)
        return for_code(response.error_code) is not GroupAuthorizationFailedError
