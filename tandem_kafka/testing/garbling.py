"""Bytes as a broken machine or an enemy would send them."""

from __future__ import annotations

from tandem_kafka.runtime import Random

__all__ = ["garbled"]

#: Counts and sizes that were never meant: the largest, the smallest, nothing, none.
_NUMBERS = (b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", b"\x00\x00\x00\x00", b"\xff\xff\xff\xff")


def garbled(frame: bytes, random: Random) -> bytes:
    """Return a frame with one to three things wrong with it; it may be empty."""
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
