"""Random calls beside the model; `TANDEM_KAFKA_SEEDS=0-5000` tries more of them."""

from __future__ import annotations

import pytest

from tandem_kafka_testing import Simulation
from tests.tier import seeds
from tests.unit.confluent.model import _MODES, Model

SEEDS = seeds(5, 40)


@pytest.mark.parametrize("mode", _MODES)
@pytest.mark.parametrize("seed", SEEDS)
def test_random_calls_get_what_the_model_expects(mode: str, seed: int) -> None:
    with Simulation(f"{mode}/{seed}") as simulation:
        Model(simulation, mode).run(60)
