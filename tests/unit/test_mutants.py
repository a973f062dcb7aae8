"""The lists of planted bugs fit the code, and the measure plants, finds and takes out."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.mutants.__main__ import _chosen, _parser
from tests.mutants.bugs import LISTS, ROOT, Bug, bugs_of
from tests.mutants.measuring import Result, measure, run_tests
from tests.mutants.planting import copied, planted

#: It reads the sources of the package.
pytestmark = pytest.mark.sources

BUGS = [pytest.param(bug, id=f"{path.stem}-{bug.id}") for path in LISTS for bug in bugs_of(path)]

LAMP = Bug(
    id="X1",
    room="lamp",
    file="lamp.py",
    old="return not lit\n",
    new="return lit\n",
    loses="The lamp cannot be switched.",
    tests=("test_lamp.py",),
)


@pytest.mark.parametrize("bug", BUGS)
def test_a_bug_fits_the_code(bug: Bug) -> None:
    text = (ROOT / bug.file).read_text(encoding="utf-8")
    assert text.count(bug.old) == 1
    assert bug.new != bug.old
    if not bug.is_rust:
        compile(text.replace(bug.old, bug.new), bug.file, "exec")
    assert bug.loses
    for test in bug.tests:
        assert (ROOT / test.partition("::")[0]).exists(), test


def test_a_bug_has_a_name_of_its_own() -> None:
    ids = [bug.id for path in LISTS for bug in bugs_of(path)]
    assert len(set(ids)) == len(ids)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program with a test of one of its two functions, which needs few plugins."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", "xdist.plugin")
    (tmp_path / "lamp.py").write_text(
        "def switched(lit):\n    return not lit\n\ndef watts():\n    return 60\n"
    )
    (tmp_path / "test_lamp.py").write_text(
        "import lamp\n\ndef test_a_lamp():\n    assert lamp.switched(False)\n"
    )
    (tmp_path / ".gitignore").write_text("ignored\n")
    (tmp_path / "ignored").write_text("")
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    return tmp_path


def test_a_bug_is_planted_in_a_copy_and_taken_out(tree: Path) -> None:
    text = (tree / "lamp.py").read_text()
    with copied(tree) as copy:
        assert {path.name for path in copy.iterdir()} == {"lamp.py", "test_lamp.py", ".gitignore"}
        with planted(copy, LAMP):
            assert "return lit" in (copy / "lamp.py").read_text()
            assert (tree / "lamp.py").read_text() == text
        assert (copy / "lamp.py").read_text() == text
    assert not copy.exists()


def test_a_bug_is_found_or_not(tree: Path) -> None:
    unseen = replace(LAMP, old="return 60\n", new="return 100\n")
    with copied(tree) as copy:
        found = measure(copy, LAMP, timeout_s=60)
        assert (found.result, found.by) == (Result.FOUND, "test_lamp.py::test_a_lamp")
        assert measure(copy, unseen, timeout_s=60).result is Result.NOT_FOUND


def test_what_says_nothing_about_a_bug(tree: Path) -> None:
    with copied(tree) as copy:
        assert measure(copy, replace(LAMP, old="absent"), 60).result is Result.ERROR
        assert measure(copy, replace(LAMP, needs="Nonesuch"), 60).by == "needs Nonesuch"
        assert run_tests(copy, ["test_absent.py"], 60).result is Result.ERROR
        assert run_tests(copy, LAMP.tests, 0.01).result is Result.NOT_DECIDED


def test_a_seed_draws_bugs(capsys: pytest.CaptureFixture[str]) -> None:
    drawn = [_chosen(_parser().parse_args(["--draw", "5", "--seed", seed])) for seed in "778"]
    assert drawn[0] == drawn[1] != drawn[2]
    assert len({bug.id for bug in drawn[0]}) == 5
    assert capsys.readouterr().out.startswith("--draw 5 --seed 7\n")
