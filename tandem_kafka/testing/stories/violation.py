"""What a story ends with when something that must always hold does not."""

from __future__ import annotations

__all__ = ["Violation"]


class Violation(AssertionError):  # noqa: N818 - reads as what it is
    """Something that must always hold does not."""
