from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.network.peers import TWINS, Peer, Twin


@pytest.fixture
def peer() -> Iterator[Peer]:
    peer = Peer()
    yield peer
    peer.close()


@pytest.fixture(params=TWINS)
def twin(request: pytest.FixtureRequest) -> Twin:
    """The class of one of the transports that must behave alike."""
    chosen: Twin = request.param
    return chosen
