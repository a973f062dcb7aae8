"""Green threads: support for processes in which gevent or eventlet has patched `threading`.

In such a process a `threading.Thread` is a greenlet, and all greenlets share one system thread.
A call that blocks this thread stops all greenlets, including the one that would end the wait.
"""

from __future__ import annotations

import gc
import importlib
import selectors
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Final

_SELECTORS: Final = {
    "gevent": ("gevent.selectors", "GeventSelector"),
    "eventlet": ("eventlet.green.selectors", "DefaultSelector"),
}


def library() -> str | None:
    """Return ``gevent`` or ``eventlet`` if it has patched `threading`; None for real threads."""
    monkey = sys.modules.get("gevent.monkey")
    if monkey is not None and monkey.is_module_patched("threading"):
        return "gevent"
    patcher = sys.modules.get("eventlet.patcher")
    if patcher is not None and patcher.is_monkey_patched("thread"):
        return "eventlet"
    return None


def selector() -> selectors.BaseSelector:
    """Return a selector that lets other green threads run while it waits."""
    name = library()
    if name is None:
        return selectors.DefaultSelector()
    module_name, class_name = _SELECTORS[name]
    made: selectors.BaseSelector = getattr(importlib.import_module(module_name), class_name)()
    return made


def yield_to_others() -> None:
    """Let all other green threads that are ready run; do nothing with real threads."""
    name = library()
    if name is not None:
        importlib.import_module(name).sleep(0)


def frames() -> Iterator[FrameType]:
    """Return the innermost frames of the suspended green threads.

    There is no list of green threads, so this searches all objects, which is slow.
    """
    kind = importlib.import_module("greenlet").greenlet
    for each in gc.get_objects():
        # Not `isinstance`, which asks a weak proxy, also one whose object is gone.
        if issubclass(type(each), kind) and each.gr_frame is not None:
            yield each.gr_frame
