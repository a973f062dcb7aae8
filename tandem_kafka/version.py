"""The version of the package, which is also sent to brokers (KIP-511)."""

from __future__ import annotations

from typing import Final

__all__ = ["__version__"]

__version__: Final = "0.11.0"
