"""The id of a KIP-848 member, made by the client (KIP-1082)."""

from __future__ import annotations

import base64
from uuid import UUID

from tandem_kafka.runtime import Random

__all__ = ["new_member_id"]


def new_member_id(random: Random) -> str:
    """Return an id that nobody else has."""
    raw = UUID(int=random.getrandbits(128), version=4).bytes
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
