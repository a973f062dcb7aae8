"""A process of pytest-xdist that dies fails the test that it ran; its other tests still run.

pytest-xdist 3.8 gives the next process all files of the dead one: of a file that was done it has no
test to run, and waits for ever; the test that ended the process, for instance by its time limit,
ends the next one too. Work that is sent to a process that has just died ends the whole run.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

from tests.sources import ROOT

__all__ = ["LostWorkers"]


class _FilesThatAreLeft(LoadFileScheduling):
    def remove_node(self, node: WorkerController) -> str | None:
        """Return the test that a process ran when it died; what it had not begun is for others."""
        files = self.assigned_work.pop(node)
        ran = None
        for name, tests in files.items():
            left = [each for each, done in tests.items() if not done]
            if left and ran is None:
                ran = left.pop(0)
                tests[ran] = True
            if left:
                self.workqueue[name] = tests
        for each in self.assigned_work:
            self._reschedule(each)
        return ran

    def _reschedule(self, node: WorkerController) -> None:
        """Give a process more tests, or the end, unless `schedule` does it when all have collected.

        Another process may die or end while a new one still collects.
        """
        if self.collection is not None and node in self.registered_collections:
            super()._reschedule(node)

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Give a process a file; if it has died, `remove_node` gives the file to another."""
        with suppress(OSError):
            super()._assign_work_unit(node)

    def schedule(self) -> None:
        """Give each process two files: it begins a test when it knows the next one, or the end."""
        super().schedule()
        for each in self.nodes:
            self._reschedule(each)


class LostWorkers:
    """A pytest plugin, for the process that collects the reports.

    Args:
        in_real_time: Tells whether the tests of a file are in real time: the report of a process
            that died has no marks.
    """

    def __init__(self, in_real_time: Callable[[Path], bool]) -> None:
        self._in_real_time = in_real_time

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, crashitem: str, report: pytest.TestReport) -> None:
        """Mark the report as the test is marked."""
        if self._in_real_time(ROOT / crashitem.partition("::")[0]):
            report.keywords = {"real_time": 1}

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(
        self, config: pytest.Config, log: object
    ) -> LoadFileScheduling | None:
        """Take the place of the scheduler of `--dist loadfile`."""
        return _FilesThatAreLeft(config, log) if config.option.dist == "loadfile" else None
