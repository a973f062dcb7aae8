"""The cases of options, by name, so that a test can say which option has none."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Subject = TypeVar("Subject")


class OptionCases(dict[str, Callable[[Subject], None]]):
    """The function that tests an option, by the option's name."""

    def of(self, name: str) -> Callable[[Callable[[Subject], None]], Callable[[Subject], None]]:
        """Register a function as the case of an option."""

        def register(test: Callable[[Subject], None]) -> Callable[[Subject], None]:
            self[name] = test
            return test

        return register
