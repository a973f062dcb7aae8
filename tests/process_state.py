"""What a file of tests must leave in its process as it was: the next file runs in the same one."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

__all__ = ["ProcessState"]

_DESCRIPTORS: Final = Path("/proc/self/fd")
#: Logs of a test are caught by handlers of pytest, which come and go.
_OF_PYTEST: Final = "_pytest."


class ProcessState:
    """A pytest plugin: a file that leaves something behind fails at once, and is named."""

    def __init__(self) -> None:
        self._before: dict[str, Any] | None = None
        self._real_time = False

    # Around all other plugins, which change some of this for one test.
    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Iterator[None]:
        """Look before the first test of a file and after its last one."""
        self._real_time |= item.get_closest_marker("real_time") is not None
        if self._before is None:
            self._before = _state(self._real_time)
        result = yield
        if nextitem is None or nextitem.path != item.path:
            before, self._before = self._before, None
            leaves = item.get_closest_marker("leaves") is not None
            if not leaves and (changed := _changes(before, self._real_time)):
                _report(item, changed)
        return result


def _changes(before: dict[str, Any], real_time: bool) -> list[str]:
    after = _state(real_time)
    if after != before:
        gc.collect()  # what only a circle of references keeps is no longer used
        after = _state(real_time)
    return [
        f"{name}: {before.get(name)!r} before, {after.get(name)!r} after"
        for name in sorted({*before, *after})
        if _is_left(before.get(name), after.get(name))
    ]


def _is_left(before: Any, after: Any) -> bool:
    """Tell what is new from what an earlier file has left, and this one only saw end."""
    if isinstance(after, Counter):
        return not after <= (before or Counter())
    return bool(before != after)


def _report(item: pytest.Item, changed: list[str]) -> None:
    path = item.nodeid.partition("::")[0]
    report = pytest.TestReport(
        nodeid=item.nodeid,  # pytest-xdist accepts no other
        location=item.location,
        keywords={},
        outcome="failed",
        longrepr="\n".join([f"{path} leaves in its process:", *changed]),
        when="teardown",
    )
    item.ihook.pytest_runtest_logreport(report=report)


def _state(real_time: bool) -> dict[str, Any]:
    found = {
        "folder": os.getcwd(),  # noqa: PTH109
        "warnings": list(warnings.filters),
        # pyarrow imports pandas when it first has a use for it, and pandas imports six for good.
        "importers": [each for each in sys.meta_path if type(each).__module__ != "six"],
        "excepthook": sys.excepthook,
        "threads' excepthook": threading.excepthook,
        "switch interval": sys.getswitchinterval(),
        "recursion limit": sys.getrecursionlimit(),
        "tracing": sys.gettrace(),
        "garbage collection": gc.isenabled(),
        "time limit of sockets": socket.getdefaulttimeout(),
        "event loop policy": type(asyncio.get_event_loop_policy()),
        "logging below": logging.root.manager.disable,
    }
    found |= {f"signal {each.name}": signal.getsignal(each) for each in _SIGNALS}
    found |= {f"${name}": value for name, value in os.environ.items() if "PYTEST" not in name}
    found |= _loggers()
    # Those of native libraries have no end that Python could see.
    threads = [
        each for each in threading.enumerate() if not isinstance(each, threading._DummyThread)
    ]
    names = [each.name for each in threads]
    # From the first test with a broker on, clients of it open and close files at any time.
    found["threads"] = Counter(
        name for name in names if not real_time or name.startswith("tandem-kafka")
    )
    if not real_time and _DESCRIPTORS.is_dir():
        found["files"] = Counter(_descriptors())
    return found


_SIGNALS: Final = [
    each for each in (signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGALRM", None)) if each
]


def _loggers() -> Iterator[tuple[str, Any]]:
    loggers = [("root", logging.root), *logging.root.manager.loggerDict.items()]
    for name, logger in loggers:
        # psycopg sets the level of its logger when it is imported.
        if isinstance(logger, logging.Logger) and name != "psycopg":
            handlers = [
                each
                for each in logger.handlers
                if not type(each).__module__.startswith(_OF_PYTEST)
                and not isinstance(each, logging.NullHandler)
            ]
            state = (logger.level if logger is not logging.root else 0, handlers, logger.disabled)
            if state != (0, [], False):
                yield f"logger {name}", state


def _descriptors() -> Iterator[str]:
    for each in _DESCRIPTORS.iterdir():
        try:
            path = str(each.readlink())
        except OSError:  # that of this very look
            continue
        if "/tandem-kafka-ports-" not in path:  # a process has its ports until it ends
            yield path
