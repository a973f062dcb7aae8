"""The shell commands of the Start pages work for somebody who has nothing but Python."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, Block, blocks
from tests.tier import sample
from tests.waiting import wait_until

PAGES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs/start").glob("*.md"))
#: Lines after which a program that reads for ever is stopped.
_LINES = 5
_ADDRESS = re.compile(r"^[\w.]+:\d+$", re.MULTILINE)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment without the packages, and wheels of them where pip looks for them."""
    folder = tmp_path_factory.mktemp("home")
    wheels = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder)]
    wheels += map(str, [ROOT, *sorted(ROOT.glob("packages/*"))])
    subprocess.run(
        wheels, env={**os.environ, "TANDEM_KAFKA_NATIVE": "off"}, check=True, timeout=150
    )
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True, timeout=100)
    return folder


class Shell:
    """Runs the blocks of one page in a folder of its own, with the environment of a stranger."""

    def __init__(self, home: Path, folder: Path) -> None:
        self._folder = folder
        self._running: list[subprocess.Popen[str]] = []
        self._bootstrap = "localhost:9092"
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        self._environment = {
            **kept,
            "PATH": f"{home / 'venv/bin'}:{os.environ['PATH']}",
            "PIP_FIND_LINKS": str(home),
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_QUIET": "1",  # a block is interrupted after five lines of output
            "PYTHONUNBUFFERED": "1",
        }

    def run(self, block: Block) -> None:
        """Save the block, or run it as its directive says."""
        code = block.code.replace("localhost:9092", self._bootstrap)
        if block.file:
            (self._folder / block.file).write_text(code, encoding="utf-8")
        elif block.language == "sh" and block.kind in {"sh", "server"}:
            process, output = self._start(code)
            if block.kind == "server":
                self._bootstrap = self._address(process, output)
            else:
                self._finish(block, process, output)

    def stop(self) -> None:
        """End what still runs."""
        for process in self._running:
            _interrupt(process)

    def _start(self, code: str) -> tuple[subprocess.Popen[str], Path]:
        output = self._folder / f"output-{len(self._running)}"
        with output.open("w") as stream:
            process = subprocess.Popen(
                ["/bin/sh", "-ec", code],
                cwd=self._folder,
                env=self._environment,
                stdout=stream,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
        self._running.append(process)
        return process, output

    def _address(self, process: subprocess.Popen[str], output: Path) -> str:
        wait_until(
            lambda: process.poll() is not None or _ADDRESS.search(output.read_text()), "the address"
        )
        found = _ADDRESS.search(output.read_text())
        assert found is not None, output.read_text()
        return found[0]

    def _finish(self, block: Block, process: subprocess.Popen[str], output: Path) -> None:
        wait_until(
            lambda: process.poll() is not None or output.read_text().count("\n") >= _LINES,
            f"{_LINES} lines of {block.page}:{block.line}",
        )
        if process.poll() is None:
            _interrupt(process)
            assert output.read_text().count("\n") >= _LINES, block
            assert "Traceback" not in output.read_text(), f"{block.page}:{block.line}"
        else:
            assert process.returncode == 0, f"{block.page}:{block.line}\n{output.read_text()}"


def _interrupt(process: subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGINT)
    process.wait(20)


@pytest.fixture
def shell(home: Path, tmp_path: Path) -> Iterator[Shell]:
    """A shell whose programs are stopped when the test ends."""
    started = Shell(home, tmp_path)
    yield started
    started.stop()


@pytest.mark.parametrize("page", sample(PAGES, 1))
def test_the_commands_of_a_page_work(page: str, shell: Shell) -> None:
    for block in blocks(page, "sh", "python"):
        shell.run(block)
