"""A test in real time that fails is run once more, alone; the summary has both results.

A busy machine can delay a real broker, a socket or a thread for longer than a test waits. Nothing
else can fail by chance: simulations, steps of threads and pure functions are never run twice.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Final

import pytest

__all__ = ["SecondRun"]

#: More failures than this are no chance.
_MOST: Final = 5

_PASSED: Final = "passed when run again"


class SecondRun:
    """A pytest plugin, for the process that collects the reports."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._failed: dict[str, pytest.TestReport] = {}
        self._again: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note what has failed, in whatever phase."""
        if report.failed:
            self._failed.setdefault(report.nodeid, report)

    # Last: the processes of pytest-xdist have ended by then.
    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Run them again, and let the session pass if nothing failed twice."""
        chosen = list(self._failed)
        if (
            session.exitstatus != pytest.ExitCode.TESTS_FAILED
            or len(chosen) > _MOST
            or not all("real_time" in each.keywords for each in self._failed.values())
        ):
            return
        for nodeid in chosen:
            self._again[nodeid] = self._run(nodeid)
        if not any(self._again.values()):
            session.exitstatus = pytest.ExitCode.OK
            stats = self._reporter.stats
            for name in ("failed", "error"):
                stats[_PASSED] = stats.get(_PASSED, []) + stats.pop(name, [])

    def _run(self, nodeid: str) -> str:
        """Return what was printed if the test failed, or nothing."""
        ran = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", nodeid],
            cwd=self._config.rootpath,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return "" if ran.returncode == 0 else ran.stdout or f"exit code {ran.returncode}"

    @property
    def _reporter(self) -> pytest.TerminalReporter:
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        assert isinstance(reporter, pytest.TerminalReporter)
        return reporter

    def pytest_terminal_summary(self) -> None:
        """Tell both results of each test that was run twice."""
        if not self._again:
            return
        reporter = self._reporter
        reporter.section("run twice")
        for nodeid, printed in self._again.items():
            first = self._failed[nodeid]
            known = "flaky" in first.keywords
            reporter.line(f"{nodeid}: failed, then {'failed' if printed else 'passed'}")
            if not printed:
                first.toterminal(reporter._tw)
            reporter.line(printed or ("marked flaky" if known else "mark it: flaky(reason, since)"))
