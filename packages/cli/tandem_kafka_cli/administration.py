"""Requests that a consumer has no call for, through kafka-python's admin client and producer."""

from __future__ import annotations

import tandem_kafka.runtime.kafka_python  # noqa: F401 - before any module of kafka-python

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import ConfigResource, ConfigResourceType

from tandem_kafka.config import Config
from tandem_kafka.errors import (
    GroupAuthorizationFailedError,
    UnsupportedVersionError,
    for_code,
)
from tandem_kafka.types import OffsetAndMetadata, TopicPartition
from tandem_kafka.wire.messages import (
    AlterShareGroupOffsetsRequest,
    ConsumerGroupDescribeRequest,
    DeleteShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequest,
    HeartbeatRequest,
    ShareGroupDescribeRequest,
)
from tandem_kafka_cli.groups import (
    DEAD,
    DENIED,
    Group,
    ListedGroup,
    StartOffset,
    classic_group,
    consumer_group,
    share_group,
    start_offsets,
)

#: How kafka-python's client begins the text of a group's error.
_CODE: Final = re.compile(r"\[Error (-?\d+)\]")
#: GROUP_ID_NOT_FOUND.
_NOT_FOUND: Final = 69
#: The states of groups that their coordinator does not describe, by error code.
_STATES: Final = {_NOT_FOUND: DEAD, GroupAuthorizationFailedError.errno: DENIED}
#: The requests that kafka-python's client has no call for, and the groups of their responses.
_DESCRIPTIONS: Final = {
    "consumer": (ConsumerGroupDescribeRequest, consumer_group),
    "share": (ShareGroupDescribeRequest, share_group),
}


class NoShareGroupsError(UnsupportedVersionError):
    """The cluster has no share groups: it is too old, or their feature is not enabled."""

    def __init__(self) -> None:
        super().__init__("the cluster has no share groups (KIP-932)")


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
        """Return the groups with their members.

        One that does not exist has the state `DEAD`, and one that this user may not describe has
        the state `DENIED`. It is listed if the user may describe the cluster.

        Raises:
            KafkaError: A coordinator does not describe a group.
        """
        self._forget_coordinators()
        coordinators = self._coordinators([each.group_id for each in groups])
        found = [
            Group(each.group_id, each.protocol, DENIED, "")
            for each in groups
            if each.group_id not in coordinators
        ]
        allowed = [each for each in groups if each.group_id in coordinators]
        classic = [each.group_id for each in allowed if each.protocol not in _DESCRIPTIONS]
        if classic:
            found += map(_classic, self._client.describe_groups(classic).values())
        for protocol in _DESCRIPTIONS:
            ids = [each.group_id for each in allowed if each.protocol == protocol]
            if ids:
                found += self._client._manager.run(self._describe, protocol, ids)  # noqa: SLF001
        return sorted(found, key=lambda group: group.group_id)

    def _coordinators(self, group_ids: Sequence[str]) -> dict[str, int]:
        """Return the coordinators of those groups that this user may describe."""
        client = self._client
        try:
            found: dict[str, int] = client._manager.run(client._find_coordinator_ids, group_ids)  # noqa: SLF001
        except GroupAuthorizationFailedError:  # of one of them
            half = len(group_ids) // 2
            if not half:
                return {}
            return {
                each: at
                for part in (group_ids[:half], group_ids[half:])
                for each, at in self._coordinators(part).items()
            }
        return found

    def _forget_coordinators(self) -> None:
        """Look the coordinators up again: kafka-python's client keeps one that has moved."""
        self._client._manager.cluster._coordinators.clear()  # noqa: SLF001

    async def _describe(self, protocol: str, group_ids: Sequence[str]) -> list[Group]:
        make_request, make_group = _DESCRIPTIONS[protocol]
        by_node: dict[int, list[str]] = defaultdict(list)
        coordinators = await self._client._find_coordinator_ids(group_ids)  # noqa: SLF001
        for group_id, node_id in coordinators.items():
            by_node[node_id].append(group_id)
        found = []
        for node_id, ids in by_node.items():
            request = make_request(
                group_ids=ids, include_authorized_operations=False, max_version=1
            )
            response = await self._client._manager.send(request, node_id=node_id)  # noqa: SLF001
            for described in response.groups:
                state = _STATES.get(described.error_code)
                if state is not None:
                    found.append(Group(described.group_id, protocol, state, ""))
                    continue
                _check(described, described.group_id)
                found.append(make_group(described))
        return found

    def committed(self, group_id: str) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the committed offsets of a group; empty if it has none."""
        found = self._client.list_group_offsets({group_id: None})[group_id]
        return {
            TopicPartition(*tp): OffsetAndMetadata(each.offset, each.metadata, each.leader_epoch)
            for tp, each in sorted(found.items())
            if each.offset >= 0
        }

    def delete_committed(self, group_id: str, partitions: Sequence[TopicPartition]) -> None:
        """Delete committed offsets.

        Raises:
            KafkaError: The coordinator rejects it, for example for a topic with a subscriber.
        """
        self._forget_coordinators()
        for tp, error in self._client.delete_group_offsets(group_id, partitions).items():
            if error.errno:
                raise error(f"{tp.topic} {tp.partition} of {group_id}")

    # --- share groups --------------------------------------------------------------------------

    def share_group(self, group_id: str) -> Group:
        """Return a share group with its members; the state is `Dead` if there is none.

        Raises:
            NoShareGroupsError: The cluster has no share groups.
            KafkaError: The coordinator does not describe the group.
        """
        request = ShareGroupDescribeRequest(
            group_ids=[group_id], include_authorized_operations=False
        )
        (described,) = self._ask_coordinator(group_id, request).groups
        if described.error_code == _NOT_FOUND:
            return Group(group_id, "share", DEAD, "")
        _check(described, group_id)
        return share_group(described)

    def share_settings(self, group_id: str) -> dict[str, str]:
        """Return the settings of a share group; empty if this user may not see them."""
        resource = ConfigResource(ConfigResourceType.GROUP, group_id)
        found = self._client.describe_configs([resource], config_filter="all")
        settings = found["group"][group_id].items()
        return {name: each["value"] for name, each in settings if name.startswith("share.")}

    def start_offsets(self, group_id: str) -> dict[TopicPartition, StartOffset]:
        """Return how far a share group is; empty if there is no such group.

        Raises:
            KafkaError: The coordinator rejects the request.
        """
        wanted = DescribeShareGroupOffsetsRequest.RequestGroup(group_id=group_id, topics=None)
        request = DescribeShareGroupOffsetsRequest(groups=[wanted])
        (described,) = self._ask_coordinator(group_id, request).groups
        _check(described, group_id)
        return start_offsets(described)

    def move_start_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Let a share group without members begin at other offsets; makes the group if need be.

        Raises:
            KafkaError: The coordinator rejects it for one partition, or for all.
        """
        kind = AlterShareGroupOffsetsRequest.RequestTopic
        topics: dict[str, list[Any]] = defaultdict(list)
        for tp, offset in offsets.items():
            entry = kind.RequestPartition(partition_index=tp.partition, start_offset=offset)
            topics[tp.topic].append(entry)
        request = AlterShareGroupOffsetsRequest(
            group_id=group_id,
            topics=[kind(topic_name=name, partitions=each) for name, each in topics.items()],
        )
        response = self._ask_coordinator(group_id, request)
        _check(response, group_id)
        for topic in response.responses:
            for each in topic.partitions:
                _check(each, f"{topic.topic_name} {each.partition_index} of {group_id}")

    def delete_start_offsets(self, group_id: str, topic: str) -> None:
        """Delete what a share group without members has stored of a topic.

        Raises:
            KafkaError: The coordinator rejects it.
        """
        kind = DeleteShareGroupOffsetsRequest.RequestTopic
        request = DeleteShareGroupOffsetsRequest(group_id=group_id, topics=[kind(topic_name=topic)])
        response = self._ask_coordinator(group_id, request)
        _check(response, group_id)
        for each in response.responses:
            _check(each, f"{each.topic_name} of {group_id}")

    def _ask_coordinator(self, group_id: str, request: Any) -> Any:
        """Send a request about a share group.

        Raises:
            NoShareGroupsError: The brokers do not have the request.
        """
        self._forget_coordinators()
        manager = self._client._manager  # noqa: SLF001
        node_id = self.coordinator(group_id)
        try:
            return manager.run(manager.send, request, node_id)
        except UnsupportedVersionError as error:
            raise NoShareGroupsError from error

    # -------------------------------------------------------------------------------------------

    def sizes(self, topic: str | None = None) -> dict[TopicPartition, int]:
        """Return the bytes of each partition's largest replica; empty if no broker tells them."""
        sizes: dict[TopicPartition, int] = {}
        try:
            brokers = self._client.describe_log_dirs([topic] if topic is not None else None)
        except UnsupportedVersionError:
            return sizes
        for broker in brokers:
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


def _classic(described: dict[str, Any]) -> Group:
    """Return a group that kafka-python's client has described.

    Raises:
        KafkaError: The coordinator does not describe it.
    """
    found = _CODE.match(described["error"] or "")
    code = int(found[1]) if found else 0
    if _STATES.get(code) == DENIED:
        return Group(described["group_id"], "classic", DENIED, "")
    if code not in {0, _NOT_FOUND}:
        raise for_code(code)(described["group_id"])
    return classic_group(described)


def _check(result: Any, about: str) -> None:
    """Raise the error of a response, or of a part of it.

    Raises:
        NoShareGroupsError: The feature of share groups is not enabled.
        KafkaError: The coordinator reports another error.
    """
    if not result.error_code:
        return
    kind = for_code(result.error_code)
    if kind is UnsupportedVersionError:
        raise NoShareGroupsError
    raise kind(f"{about}: {result.error_message or kind.__name__}")
