"""One mistake, and words of its message."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest


@dataclass(frozen=True)
class Mistake:
    """What was done, and words of its message.

    Attributes:
        make: Does it in a `Simulation`, or with `Servers`. An error, or else lines of the log, is
            the message.
        thing: What it is about.
        why: Why it does not work.
        cure: What to do.
    """

    make: Callable[[Any], object]
    thing: str
    why: str
    cure: str

    def check(self, world: object, caplog: pytest.LogCaptureFixture) -> None:
        """Make the mistake, and look for the words."""
        with caplog.at_level(logging.WARNING, "tandem_kafka"):
            try:
                self.make(world)
            except Exception as error:  # noqa: BLE001 - of any kind
                said = str(error)
            else:
                said = "\n".join(caplog.messages)
        missing = [words for words in (self.thing, self.why, self.cure) if words not in said]
        assert not missing, said
