"""Scripts with groups, on several kinds of brokers."""

from __future__ import annotations

import pytest

from tests.integration.brokers import Brokers
from tests.integration.groups.group_scenes import Scene, World


@pytest.fixture
def world(brokers: Brokers) -> World:
    """One group whose consumers a script polls."""
    return World(brokers)


@pytest.fixture
def scene(brokers: Brokers) -> Scene:
    """Groups of several protocols."""
    return Scene(brokers)
