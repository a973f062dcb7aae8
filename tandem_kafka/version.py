"""The version of the package: told to brokers (KIP-511), and that of the distribution."""

from __future__ import annotations

from typing import Final

__all__ = ["__version__"]

__version__: Final = "0.9.0"
