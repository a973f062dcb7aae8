"""To type checkers, each message is Any: kafka-python has no types."""

from typing import Any

def __getattr__(name: str) -> Any: ...
