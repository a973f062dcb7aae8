"""Names of topics that a cluster sends: a hostile broker may name anything."""

from __future__ import annotations

import re
from typing import Final

_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def is_topic_name(name: str) -> bool:
    """Tell whether Kafka allows this name (`org.apache.kafka.common.internals.Topic`)."""
    return _NAME.fullmatch(name) is not None and name not in {".", ".."}
