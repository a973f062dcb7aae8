"""Interrupts between any two bytecodes, as a signal handler that raises may cause them."""

from __future__ import annotations

import contextvars
import dis
import gc
import sys
from collections.abc import Callable, Iterator
from functools import cache
from types import CodeType, FrameType
from typing import Any, Final

import pytest

__all__ = ["UNAWAITED", "Interrupter", "behind_store", "coroutines_end_here"]

#: An interrupt between making a coroutine and running it. Python then warns; no state has changed.
#: Where the collector finds it in a namedtuple's `__new__`, Python cannot import `warnings`.
UNAWAITED = pytest.mark.filterwarnings(
    "ignore:coroutine .* was never awaited:RuntimeWarning",
    "ignore:Exception ignored in. <coroutine object:pytest.PytestUnraisableExceptionWarning",
)


@pytest.fixture(scope="module", autouse=True)
def coroutines_end_here() -> Iterator[None]:
    """Collect the coroutines that never ran while `UNAWAITED` still ignores the warnings."""
    yield
    gc.collect()


def press_ctrl_c() -> None:
    """Do the same as Python's handler of SIGINT."""
    raise KeyboardInterrupt


#: These enter and leave an exception handler. CPython runs no signal handler there. An error would
#: leave the handled exception behind as the one that all later code handles.
_OF_HANDLERS: Final = {dis.opmap["PUSH_EXC_INFO"], dis.opmap["POP_EXCEPT"]}


class Interrupter:
    """Runs a signal handler at one bytecode of a call.

    CPython runs signal handlers at the beginning of functions, at backward jumps and behind calls.
    This class runs one at every bytecode, which is stricter.

    Functions that `skip` chooses, by their frames, are left alone.

    Attributes:
        at: Before which bytecode, counted from 0 over all calls that were traced.
        frame: Where the handler was run, None if there were fewer bytecodes.
        instruction: The offset of that bytecode in the frame's code.
    """

    def __init__(
        self,
        at: int,
        handler: Callable[[], None] = press_ctrl_c,
        *,
        skip: Callable[[FrameType], bool] = lambda _: False,
    ) -> None:
        self.at = at
        self._handler = handler
        self.frame: FrameType | None = None
        self.instruction = -1
        self._left = at
        self._skip = skip

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function and interrupt it.

        In a copy of the context, because an interrupt between entering and leaving `LinesOf` may
        leave its variable set, also for the tests that follow.
        """
        if self.frame is not None:
            return function(*arguments)
        gc.disable()  # otherwise an object's __del__ could swallow the interrupt
        sys.settrace(self._trace)
        try:
            return contextvars.copy_context().run(function, *arguments)
        finally:
            sys.settrace(None)
            gc.enable()

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        del argument
        if event == "call":
            if self._skip(frame):
                return None
            frame.f_trace_opcodes = True
            frame.f_trace_lines = False
        elif event == "opcode" and frame.f_code.co_code[frame.f_lasti] not in _OF_HANDLERS:
            if not self._left:
                self.frame, self.instruction = frame, frame.f_lasti
                self._handler()
            self._left -= 1
        return self._trace

    def came_behind(self, code: CodeType, attribute: str) -> bool:
        """Tell whether it occurred in `code` after its only store to an attribute.

        Only a return or a call of variables may follow: CPython runs no handler between these.
        """
        if self.frame is None or self.frame.f_code is not code:
            return False
        store, end = behind_store(code, attribute)
        return store < self.instruction <= end


@cache
def behind_store(code: CodeType, attribute: str) -> tuple[int, int]:
    """Return the offsets of the only store to an attribute, and of the next return or call."""
    # A coroutine that never ran and is collected in here fails to warn: named tuples are made by
    # code that has no builtins.
    gc.collect()
    instructions = list(dis.get_instructions(code))
    (at,) = [
        index
        for index, instruction in enumerate(instructions)
        if instruction.opname == "STORE_ATTR" and instruction.argval == attribute
    ]
    for instruction in instructions[at + 1 :]:
        if instruction.opname in {"RETURN_VALUE", "CALL"}:
            return instructions[at].offset, instruction.offset
        assert instruction.opname in {"LOAD_FAST", "PUSH_NULL", "PRECALL"}, instruction
    raise AssertionError("there is neither")
