"""Implements `list + records` and `list += records` for the native `Records`.

Python calls the same method of `Records` for both. The second form must extend and return the list
itself, which may have other references. The running instruction tells which form it is.
"""

from __future__ import annotations

import opcode
import sys
from typing import Any, Final

_BINARY_OP: Final = opcode.opmap["BINARY_OP"]
_IN_PLACE: Final = [
    number
    for number, (name, _) in enumerate(opcode._nb_ops)  # type: ignore[attr-defined]  # noqa: SLF001
    if name == "NB_INPLACE_ADD"
]


def added(left: list[Any], right: list[Any]) -> list[Any]:
    """Return the sum of two lists; for `left += ...`, extend and return `left` itself."""
    frame = sys._getframe(1)  # noqa: SLF001 - documented, in spite of its name
    code, at = frame.f_code.co_code, frame.f_lasti
    if code[at] == _BINARY_OP and code[at + 1] in _IN_PLACE:
        left += right
        return left
    return left + right
