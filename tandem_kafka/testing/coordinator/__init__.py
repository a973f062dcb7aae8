"""What a group coordinator writes, so that the one after it knows what it knew."""

from __future__ import annotations
