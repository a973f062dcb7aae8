"""The rules by which the gate decides: what runs, what runs twice, what a file may leave behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

Run = Callable[..., pytest.RunResult]

ROOT = Path(__file__).resolve().parents[2]

MARKERS = """
[pytest]
markers =
    full(reason)
    real_time
    flaky(reason, since)
"""

#: Fails when it runs first, and passes when it runs again.
PASSES_LATER = """
    from pathlib import Path
    import pytest

    {mark}
    def test_it():
        seen = Path("seen")
        again = seen.exists()
        seen.touch()
        assert again{more}
"""


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a file of tests by the rules of this project's tests."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    for name in ("TANDEM_KAFKA_ALL", "TANDEM_KAFKA_TEST_KAFKA"):
        monkeypatch.delenv(name, raising=False)
    pytester.makeini(MARKERS)
    pytester.makeconftest("from tests.plugin import *")

    def run(code: str, *arguments: str) -> pytest.RunResult:
        pytester.makepyfile(code)
        return pytester.runpytest_subprocess("-p", "no:cacheprovider", *arguments)

    return run


def test_what_is_full_runs_only_with_all(run: Run) -> None:
    code = """
        import pytest
        from tests.tier import bytecodes, examples, sample

        def test_every_day(): pass

        @pytest.mark.full("long")
        def test_sometimes(): pass

        @pytest.mark.parametrize("seed", sample(range(5), 2))
        def test_seeds(seed): pass

        def test_some():
            ways = bytecodes()
            print([next(ways), next(ways)], examples(400))
    """
    everyday = run(code, "-s")
    everyday.assert_outcomes(passed=4, deselected=4)
    everyday.stdout.fnmatch_lines(["*[[]0, 7[]] 66*"])
    everything = run(code, "-s", "--all")
    everything.assert_outcomes(passed=8)
    everything.stdout.fnmatch_lines(["*[[]0, 1[]] 400*"])


def test_a_test_in_real_time_may_fail_once(run: Run) -> None:
    code = PASSES_LATER.format(mark="@pytest.mark.real_time", more="")
    result = run(code, "--second-run", "-n", "1")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        ["*run twice*", "*::test_it: failed, then passed", "mark it: flaky(reason, since)"]
    )


@pytest.mark.full("a run of pytest of its own")
def test_a_test_that_fails_twice_refuses(run: Run) -> None:
    code = PASSES_LATER.format(mark="@pytest.mark.real_time", more=" and not again")
    result = run(code, "--second-run")
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*::test_it: failed, then failed"])


@pytest.mark.full("a run of pytest of its own")
@pytest.mark.parametrize(
    ("mark", "options"), [("", ("--second-run",)), ("@pytest.mark.real_time", ())]
)
def test_nothing_else_runs_twice(run: Run, mark: str, options: tuple[str, ...]) -> None:
    result = run(PASSES_LATER.format(mark=mark, more=""), *options)
    assert result.ret == 1
    result.stdout.no_fnmatch_line("*run twice*")


def test_a_file_that_leaves_something_behind_is_named(run: Run) -> None:
    code = """
        import logging, os, sys, threading

        def test_it():
            os.environ["LEFT"] = "behind"
            logging.getLogger("left").setLevel(10)
            sys.meta_path.append(None)
            sys.left = open("left", "w")
            threading.Thread(target=threading.Event().wait, args=(5,), name="left").start()

        def test_another(): pass
    """
    result = run(code, "--second-run", "-n", "1")
    assert result.ret == 1
    result.stdout.fnmatch_lines_random(
        [
            "test_*.py leaves in its process:",
            "$LEFT: None before, 'behind' after",
            "files: *'*/left'*",
            "importers: *",
            "logger left: None before, *",
            "threads: *'left'*",
        ]
    )
    result.stdout.no_fnmatch_line("*run twice*")
