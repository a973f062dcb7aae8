"""A value that no `repr()` shows, for example in the local variables of a traceback."""

from __future__ import annotations

from typing import Final, Generic, TypeVar

T = TypeVar("T")

#: What is shown instead of a secret.
HIDDEN: Final = "<hidden>"


class Secret(Generic[T]):
    """Hides a value.

    Tools that collect errors show the local variables of each frame. A local variable that refers
    to a password or token must therefore refer to a `Secret`. The value itself may only be used
    within an expression.
    """

    __slots__ = ("_value",)

    def __init__(self, value: T) -> None:
        self._value = value

    def reveal(self) -> T:
        """Return the value."""
        return self._value

    def __repr__(self) -> str:
        """Return a placeholder."""
        return HIDDEN
