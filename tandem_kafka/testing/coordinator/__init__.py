"""The simulated coordinator of a group, for both protocols."""

from __future__ import annotations
