"""Errors of JoinGroup, with what the user can do about them."""

from __future__ import annotations

from typing import Final

from tandem_kafka.errors import for_code
from tandem_kafka.request_managers.context import ManagerContext

__all__ = ["join_error"]

_INCONSISTENT_GROUP_PROTOCOL: Final = 23


def join_error(code: int, context: ManagerContext) -> Exception:
    """Return the error of a code; it says more than its name where the user has to act."""
    return for_code(code)(_explanation(code, context))  # type: ignore[no-any-return]


def _explanation(code: int, context: ManagerContext) -> str:
    config = context.config
    if code == _INCONSISTENT_GROUP_PROTOCOL:
        names = ", ".join(str(each.name) for each in config.partition_assignment_strategy)
        return (
            f"group {config.group_id!r} has no assignor in common with this member, which offers "
            f"{names}; have all members offer one more assignor before you take one away"
        )
    return f"group {config.group_id!r}"
