from __future__ import annotations

import importlib
import logging
import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from tandem_kafka.runtime import native


def extension(monkeypatch: pytest.MonkeyPatch, outcome: object) -> None:
    """Let the import of the extension return or raise `outcome`."""

    def load(name: str) -> Any:
        assert name == "tandem_kafka._native"
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setattr(importlib, "import_module", load)


@pytest.mark.parametrize("wanted", [None, "", "native"])
def test_the_extension_is_used_if_available(
    monkeypatch: pytest.MonkeyPatch, wanted: str | None
) -> None:
    module = SimpleNamespace(ABI=native.ABI)
    extension(monkeypatch, module)
    assert native.load(wanted) == (module, "")


def test_python_never_loads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    extension(monkeypatch, AssertionError("loaded"))
    assert native.load("python") == (None, "TANDEM_KAFKA_IMPL=python")


@pytest.mark.parametrize("wanted", [None, ""])
def test_without_the_extension_python_is_used(
    monkeypatch: pytest.MonkeyPatch, wanted: str | None
) -> None:
    extension(monkeypatch, ImportError("no such module"))
    module, reason = native.load(wanted)
    assert module is None
    assert "no such module" in reason


def test_forced_and_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    extension(monkeypatch, ImportError("no such module"))
    with pytest.raises(ImportError, match=r"TANDEM_KAFKA_IMPL=native, but .* no such module"):
        native.load("native")


@pytest.mark.parametrize("wanted", [None, "native"])
@pytest.mark.parametrize("abi", [None, native.ABI + 1])
def test_an_extension_of_another_build_is_rejected(
    monkeypatch: pytest.MonkeyPatch, wanted: str | None, abi: int | None
) -> None:
    extension(monkeypatch, SimpleNamespace(ABI=abi, __file__="/there/_native.abi3.so"))
    with pytest.raises(ImportError, match=r"/there/_native\.abi3\.so is from another build"):
        native.load(wanted)


def test_an_invalid_value_of_the_variable() -> None:
    with pytest.raises(ImportError, match="TANDEM_KAFKA_IMPL=rust is invalid: set it to python"):
        native.load("rust")


@pytest.mark.parametrize(
    ("chosen", "level", "text"),
    [
        (
            None,
            "WARNING",
            (
                "using the Python implementation, which is several times slower: because; "
                "reinstall tandem-kafka, or set TANDEM_KAFKA_IMPL=python to accept it"
            ),
        ),
        (
            "python",
            "INFO",
            "using the Python implementation instead of the native extension: because",
        ),
    ],
)
def test_its_absence_is_logged_with_one_warning(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    chosen: str | None,
    level: str,
    text: str,
) -> None:
    monkeypatch.setattr(native, "native_available", False)
    monkeypatch.setattr(native, "_REASON", "because")
    monkeypatch.setattr(native, "_logged", set())
    monkeypatch.delenv("TANDEM_KAFKA_IMPL", raising=False)
    if chosen is not None:
        monkeypatch.setenv("TANDEM_KAFKA_IMPL", chosen)
    with caplog.at_level(logging.INFO):
        native.log_fallback()
        native.log_fallback()
    assert {(each.levelname, each.getMessage()) for each in caplog.records} == {(level, text)}
    assert chosen is not None or len(caplog.records) == 1


@pytest.mark.parametrize("wanted", ["native", "rust"])
def test_a_wish_that_cannot_be_met_fails_at_import(wanted: str) -> None:
    """`import tandem_kafka` alone, which otherwise loads as little as possible."""
    program = (
        "import importlib.abc, sys\n"
        "class Without(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'tandem_kafka._native': raise ImportError('not here')\n"
        "sys.meta_path.insert(0, Without())\n"
        "import tandem_kafka\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "TANDEM_KAFKA_IMPL": wanted},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 1
    assert f"ImportError: TANDEM_KAFKA_IMPL={wanted}" in result.stderr
