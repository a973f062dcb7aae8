"""The cases of the gate, as parameters of tests; divided, so that they run in several processes."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.answers.check import Case, cases

__all__ = ["everyday"]

_GROUPS: Final = frozenset(
    {
        *("JoinGroup", "SyncGroup", "Heartbeat", "ConsumerGroupHeartbeat", "LeaveGroup"),
        *("FindCoordinator", "OffsetCommit", "OffsetFetch"),
    }
)
#: They are asked again at once, as the protocol wants it, and so take as long as a hundred others.
_LONG: Final = frozenset(
    {
        ("Fetch", "responses empty"),
        ("Fetch", "responses.partitions empty"),
        ("Fetch", "responses.partitions.partition_index=-1"),
        ("ShareFetch", "acquisition_lock_timeout_ms=1"),
    }
)


def everyday(of: str) -> list[Any]:
    """Return the cases of requests of `groups`, of `shares`, or of the `others`."""
    return [_parameter(case) for case in cases(every=False) if _subject(case) == of]


def _subject(case: Case) -> str:
    name = case.row.name
    return "groups" if name in _GROUPS else "shares" if name.startswith("Share") else "others"


def _parameter(case: Case) -> object:
    long = (case.row.name, case.answer.name) in _LONG
    marks = [pytest.mark.full("takes long")] if long else []
    return pytest.param(case, id=case.id, marks=marks)
