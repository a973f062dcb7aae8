"""Cluster metadata: brokers, topics and leaders. Writer: the network thread.

Both threads read a `ClusterSnapshot`, which is immutable. An update replaces the whole snapshot
with a single store.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from uuid import UUID

from tandem_kafka.dataclass import dataclass
from tandem_kafka.types import (
    NO_TOPIC_ID,
    UNKNOWN_EPOCH,
    ClusterSnapshot,
    Node,
    TopicInfo,
    TopicPartition,
)

#: An older leader epoch is accepted after this many responses in a row, over this time at least.
_OLDER_EPOCH_RESPONSES = 5
_OLDER_EPOCH_MS = 10_000
#: How long a topic of no interest is kept, as other calls may ask for it again.
_KEEP_MS = 600_000


@dataclass(frozen=True)
class _OlderEpoch:
    """An older leader epoch that responses give instead of the known one."""

    epoch: int
    count: int
    since_ms: int


class ClusterMetadata:
    """Holds the newest snapshot and the bootstrap servers.

    Writer of every field: the network thread. The application thread reads `snapshot`.
    """

    def __init__(self, bootstrap: Sequence[tuple[str, int]]) -> None:
        self.snapshot = ClusterSnapshot()
        self._bootstrap = tuple(
            [Node(-1 - index, host, port) for index, (host, port) in enumerate(bootstrap)]
        )
        self.rebootstraps = 0
        #: The number of metadata responses so far, without leader hints from fetch responses.
        self.responses = 0
        #: The last result of `nodes` and its snapshot: every iteration of the loop calls it.
        self._nodes: Sequence[Node] = self._bootstrap
        self._nodes_of: ClusterSnapshot | None = None
        self._retry_nodes: set[int] = set()
        #: Brokers that did not respond to the last request or connection attempt.
        self.unreachable: AbstractSet[int] = frozenset()
        #: Partitions whose leader is only known from a fetch response.
        self._hinted: set[TopicPartition] = set()
        self._older_epochs: dict[TopicPartition, _OlderEpoch] = {}
        #: When a response last described a topic or had an error for it.
        self._described_ms: dict[str, int] = {}

    def nodes(self) -> Sequence[Node]:
        """Return the known brokers, or the bootstrap servers if no broker is known."""
        snapshot = self.snapshot
        if self._nodes_of is not snapshot:
            self._nodes = tuple(snapshot.nodes.values()) or self._bootstrap
            self._nodes_of = snapshot
        return self._nodes

    def rebootstrap(self) -> None:
        """Forget the brokers but not the topics, to use the bootstrap servers next (KIP-899)."""
        if self.snapshot.nodes:
            self.rebootstraps += 1
            self.snapshot = replace(self.snapshot, nodes={})

    def suggest_retry(self, node_id: int) -> None:
        """Note that a response names this broker, so a connection attempt may succeed now."""
        self._retry_nodes.add(node_id)

    def take_retry_nodes(self) -> Iterable[int]:
        """Return the brokers noted since the last call."""
        if not self._retry_nodes:
            return ()
        retry_nodes, self._retry_nodes = self._retry_nodes, set()
        return retry_nodes

    def update(
        self, answer: ClusterSnapshot, *, partial: bool, now_ms: int = 0, forget: bool = False
    ) -> None:
        """Apply a metadata response; a partial one only describes the topics that it names.

        With `forget`, it names all topics of interest; of others, it ends the memory in time.

        A partition keeps its known leader if the response has an older leader epoch, unless the
        topic was recreated. A stale broker must not send us back to a previous leader (KIP-320).

        Invariant: no epoch is final, as nothing protects it on its way. Otherwise a corrupted one
        would be kept forever. The older epoch is accepted if the known one was only a hint of a
        fetch response, or if metadata responses keep repeating it.
        """
        known = self.snapshot
        self.responses += 1
        described = dict.fromkeys((*answer.topics, *answer.topic_errors), now_ms)
        described = {**self._described_ms, **described} if partial else described
        if forget:
            described = {name: at for name, at in described.items() if now_ms - at < _KEEP_MS}
        self._described_ms = described
        topics = {
            name: each for name, each in known.topics.items() if partial and name in described
        }
        for name in answer.topic_errors:
            topics.pop(name, None)
        for name, topic in answer.topics.items():
            topics[name] = self._newest(known.topics.get(name), topic, now_ms)
            self._retry_nodes |= _new_leaders(known.topics.get(name), topics[name])
        self._retry_nodes |= answer.nodes.keys() - known.nodes.keys()
        errors = {n: each for n, each in known.topic_errors.items() if partial and n in described}
        for name in answer.topics:
            errors.pop(name, None)
        errors.update(answer.topic_errors)
        self.snapshot = ClusterSnapshot(
            version=known.version + 1,
            cluster_id=answer.cluster_id,
            nodes=dict(answer.nodes),
            topics=topics,
            topic_errors=errors,
            topic_names=_names_by_id(topics),
        )
        if forget or not partial:
            self._hinted = {tp for tp in self._hinted if tp.topic in topics}
            self._older_epochs = {k: v for k, v in self._older_epochs.items() if k.topic in topics}

    def _newest(self, known: TopicInfo | None, answered: TopicInfo, now_ms: int) -> TopicInfo:
        if known is None or known.topic_id != answered.topic_id:
            return answered
        partitions = {}
        for number, info in answered.partitions.items():
            old = known.partitions.get(number)
            tp = TopicPartition(answered.name, number)
            if old is None or not UNKNOWN_EPOCH < info.leader_epoch < old.leader_epoch:
                self._older_epochs.pop(tp, None)
                self._hinted.discard(tp)
                partitions[number] = info
            else:
                keep = not self._accept_older(tp, info.leader_epoch, now_ms)
                partitions[number] = old if keep else info
        return replace(answered, partitions=partitions)

    def _accept_older(self, tp: TopicPartition, epoch: int, now_ms: int) -> bool:
        """Count a response with an older epoch; True if that epoch must be accepted now."""
        seen = self._older_epochs.get(tp)
        if seen is None or seen.epoch != epoch:
            seen = _OlderEpoch(epoch, 0, now_ms)
        seen = replace(seen, count=seen.count + 1)
        lasting = seen.count >= _OLDER_EPOCH_RESPONSES and now_ms - seen.since_ms >= _OLDER_EPOCH_MS
        if lasting or tp in self._hinted:
            self._older_epochs.pop(tp, None)
            self._hinted.discard(tp)
            return True
        self._older_epochs[tp] = seen
        return False

    def confirm_leader(self, tp: TopicPartition) -> None:
        """Confirm a leader hint: the leader has responded to a fetch with the hinted epoch."""
        self._hinted.discard(tp)

    def update_leader(
        self, tp: TopicPartition, leader: tuple[int, int], nodes: Sequence[Node]
    ) -> bool:
        """Apply a leader hint from a fetch response (KIP-951); False if it is not newer."""
        known = self.snapshot
        topic, info = known.topics.get(tp.topic), known.partition(tp)
        leader_id, leader_epoch = leader
        # Without those that lead nothing, of which a response may name any number.
        named = {node.node_id: node for node in nodes if node.node_id == leader_id}
        all_nodes = {**known.nodes, **named}
        if topic is None or info is None or leader_id not in all_nodes:
            return False
        if leader_epoch <= info.leader_epoch:
            return False
        self._retry_nodes.add(leader_id)
        self._hinted.add(tp)
        changed = replace(info, leader_id=leader_id, leader_epoch=leader_epoch)
        topic = replace(topic, partitions={**topic.partitions, tp.partition: changed})
        self.snapshot = replace(
            known,
            version=known.version + 1,
            nodes=all_nodes,
            topics={**known.topics, tp.topic: topic},
        )
        return True


def _new_leaders(known: TopicInfo | None, now: TopicInfo) -> set[int]:
    """Return the brokers that have become the leader of a partition."""
    if known is None or known.partitions is now.partitions:
        return set()
    return {
        info.leader_id
        for number, info in now.partitions.items()
        if number in known.partitions and known.partitions[number].leader_id != info.leader_id
    }


def _names_by_id(topics: Mapping[str, TopicInfo]) -> dict[UUID, str]:
    return {topic.topic_id: name for name, topic in topics.items() if topic.topic_id != NO_TOPIC_ID}
