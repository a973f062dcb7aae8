"""Responses with damaged bytes, as from a broken machine or an attacker."""

from __future__ import annotations

from tandem_kafka.runtime import Random
from tandem_kafka_testing import Simulation

__all__ = ["garble_responses"]

#: Wrong counts and sizes: the largest, the smallest, zero, null.
_NUMBERS = (b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", b"\x00\x00\x00\x00", b"\xff\xff\xff\xff")


def garble_responses(simulation: Simulation, share: float) -> None:
    """Damage a share of all responses until the network is healed.

    Bytes are changed, missing or added. Records and decisions based on them may be wrong.
    """
    network, random = simulation.network, Random(f"{simulation.seed}/garbling")

    def alter(frame: bytes) -> bytes:
        if random.random() >= share:
            return frame
        network.trace.note("a response is damaged")
        return _garbled(frame, random)

    network.alter_response = alter


def _garbled(frame: bytes, random: Random) -> bytes:
    """Return a frame with one to three defects; it may be empty."""
    wrong = bytearray(frame)
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(wrong) + 1)
        match random.randrange(5):
            case 0:
                wrong[at : at + 1] = bytes([random.randrange(256)])
            case 1:
                wrong[at : at + 4] = random.choice(_NUMBERS)
            case 2:
                del wrong[at:]
            case 3:
                wrong[at:at] = random.randbytes(random.randint(1, 20))
            case _:
                del wrong[at : at + random.randint(1, 8)]
    return bytes(wrong)
