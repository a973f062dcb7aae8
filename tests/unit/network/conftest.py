from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.network.peers import IMPLEMENTATIONS, NewTransport, Peer


@pytest.fixture
def peer() -> Iterator[Peer]:
    peer = Peer()
    yield peer
    peer.close()


@pytest.fixture(params=IMPLEMENTATIONS)
def new_transport(request: pytest.FixtureRequest) -> NewTransport:
    """The class of a transport; all of them must behave alike."""
    chosen: NewTransport = request.param
    return chosen
