"""Cases of the gate that fall short, and why. Each must leave this list once it holds."""

from __future__ import annotations

from typing import Final

from tests.answers.check import Case

__all__ = ["known"]

_REMOVED: Final = "each removal of a classic member is told, in a WARNING"
_COMMITS: Final = "a member whose commits are refused joins again without a backoff"
_OUTCOMES: Final = "each acknowledgement that is refused is told, in a WARNING"
_DENIED: Final = "the right to describe a topic is noticed by the next refresh of the metadata"
_ADDRESS: Final = "each refresh of the metadata names an address that cannot be"

#: The API, the beginning of the answer, and the reason.
_KNOWN: Final = (
    ("Heartbeat", "error_code=IllegalGeneration", _REMOVED),
    ("JoinGroup", "error_code=IllegalGeneration", _REMOVED),
    ("JoinGroup", "generation_id=-1", _REMOVED),
    ("SyncGroup", "error_code=IllegalGeneration", _REMOVED),
    ("OffsetCommit", "topics.partitions.error_code=UnknownMemberId", _COMMITS),
    ("ShareAcknowledge", "error_code=OffsetOutOfRange", _OUTCOMES),
    ("ShareAcknowledge", "error_code=BrokerIdNotRegistered", _OUTCOMES),
    ("ShareAcknowledge", "error_code=ConcurrentTransactions", _OUTCOMES),
    ("ShareAcknowledge", "error_code=9999", _OUTCOMES),
    ("ShareFetch", "responses.partitions.acknowledge_error_code=", _OUTCOMES),
    ("ShareFetch", "responses.partitions.partition_index=-1", _OUTCOMES),
    ("Metadata", "topics.error_code=TopicAuthorizationFailed", _DENIED),
    ("Metadata", "brokers.port=-1", _ADDRESS),
)


def known(case: Case) -> str:
    """Return why a case falls short, empty if it must hold."""
    for api, beginning, reason in _KNOWN:
        if case.row.name == api and case.answer.name.startswith(beginning):
            return reason
    return ""
