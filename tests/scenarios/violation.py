"""The error that ends a run when an invariant does not hold."""

from __future__ import annotations

__all__ = ["Violation"]


class Violation(AssertionError):  # noqa: N818 - named after what happened
    """An invariant does not hold."""
