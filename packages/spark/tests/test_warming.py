"""`python -m pyspark_tandem_kafka warm`: bytecode for zip files and packages."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Literal
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import pytest
from click.testing import CliRunner, Result

import packages.spark.tests.session  # noqa: F401 - skips all of this without pyspark

import pyspark  # isort: skip - see session
from pyspark_tandem_kafka import warming  # isort: skip
from pyspark_tandem_kafka.__main__ import program  # isort: skip
from pyspark_tandem_kafka.warming import warm_package, warm_zip, zips  # isort: skip

CONTENTS = {
    "shop/__init__.py": b"NAME = 'shop'\n",
    "shop/prices.py": b"def price():\n    raise ValueError(__file__)\n",
    "shop/py.typed": b"",
    "LICENSE": b"text\n" * 1000,
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder of Spark whose PySpark is small."""
    lib = tmp_path / "python" / "lib"
    lib.mkdir(parents=True)
    for name in ("pyspark.zip", "py4j-1.2-src.zip"):
        with ZipFile(lib / name, "w") as archive:
            for path, data in CONTENTS.items():
                info = ZipInfo(path, (2026, 1, 2, 3, 4, 6))
                info.compress_type, info.external_attr = ZIP_DEFLATED, 0o640 << 16
                archive.writestr(info, data)
    return tmp_path


def warm(home: Path, *more: str) -> Result:
    return CliRunner().invoke(program, ["warm", "--spark-home", str(home), *more])


def imported(path: Path, program: str, **environment: str) -> str:
    """Run a program with a zip file in its path."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(path), **environment},
        capture_output=True,
        check=True,
        text=True,
        timeout=60,
    )
    return done.stdout.strip()


def test_python_imports_the_bytecode(home: Path) -> None:
    path = home / "python/lib/pyspark.zip"
    program = "import shop.prices as p; print(p.__file__.rpartition('/')[2])"
    assert imported(path, program) == "prices.py"
    assert warm(home).exit_code == 0
    assert imported(path, program) == "prices.pyc"


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/New_York"])
def test_bytecode_is_valid_in_every_time_zone(home: Path, zone: str) -> None:
    path = home / "python/lib/pyspark.zip"
    warm_zip(path)
    assert imported(path, "import shop; print(shop.__file__[-4:])", TZ=zone) == ".pyc"


def test_tests_get_no_bytecode(home: Path) -> None:
    """Seven tenths of the modules in `pyspark.zip` are tests."""
    path = home / "python/lib/pyspark.zip"
    with ZipFile(path, "a") as archive:
        archive.writestr("shop/tests/__init__.py", b"")
        archive.writestr("shop/tests/test_prices.py", b"PRICE = 1\n")
    assert warm_zip(path).modules == 2
    with ZipFile(path) as archive:
        assert "shop/tests/test_prices.pyc" not in archive.namelist()
    assert imported(path, "import shop.tests.test_prices as t; print(t.PRICE)") == "1"


def test_a_traceback_shows_the_source(home: Path) -> None:
    path = home / "python/lib/pyspark.zip"
    warm_zip(path)
    program = (
        "import shop.prices, traceback\n"
        "try: shop.prices.price()\n"
        "except ValueError: print(traceback.format_exc())"
    )
    shown = imported(path, program)
    assert "raise ValueError(__file__)" in shown
    assert "pyspark.zip/shop/prices.py" in shown


def test_what_was_in_the_file_stays_byte_for_byte(home: Path) -> None:
    path = home / "python/lib/pyspark.zip"
    path.chmod(0o644)
    before = path.read_bytes()
    with ZipFile(path) as archive:
        end = archive.start_dir  # type: ignore[attr-defined]
        entries = {each.filename: each for each in archive.infolist()}
    assert warm_zip(path).cold == 2
    assert path.read_bytes()[:end] == before[:end]
    with ZipFile(path) as archive:
        assert archive.testzip() is None
        assert sorted(archive.namelist()) == sorted(
            [*CONTENTS, "shop/__init__.pyc", "shop/prices.pyc"]
        )
        for each in archive.infolist():
            if each.filename in CONTENTS:
                was = entries[each.filename]
                assert archive.read(each) == CONTENTS[each.filename]
                assert (each.header_offset, each.date_time) == (was.header_offset, was.date_time)
                assert each.external_attr == was.external_attr
    assert path.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("mode", [0o640, 0o444])
def test_the_same_users_may_read_the_file(home: Path, mode: int) -> None:
    """Whoever prepares an image is often not the one who runs Spark."""
    path = home / "python/lib/pyspark.zip"
    others = [1] if os.geteuid() == 0 else [*{*os.getgroups()} - {os.getegid()}]
    os.chown(path, 1 if os.geteuid() == 0 else -1, others[0] if others else -1)
    path.chmod(mode)
    before = path.stat()
    assert warm_zip(path).cold == 2
    after = path.stat()
    assert after.st_ino != before.st_ino
    assert (after.st_uid, after.st_gid) == (before.st_uid, before.st_gid)
    assert after.st_mode & 0o777 == mode


def test_the_owner_of_a_read_only_file_may_warm_it(home: Path) -> None:
    path = home / "python/lib/pyspark.zip"
    path.chmod(0o444)
    writable = []

    class Opened(ZipFile):
        def __init__(self, file: Path, mode: Literal["r", "a"] = "r") -> None:
            if mode == "a":
                writable.append(stat.S_IMODE(file.stat().st_mode))
            super().__init__(file, mode)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(warming, "ZipFile", Opened)  # root may write to any file
        assert warm_zip(path).cold == 2
    assert writable == [0o644]


def test_a_running_python_imports_from_the_replaced_file(home: Path) -> None:
    path = home / "python/lib/pyspark.zip"
    program = (
        "import shop, sys; from pathlib import Path\n"
        f"sys.path.append({str(Path.cwd())!r})\n"
        f"from pyspark_tandem_kafka.warming import warm_zip; warm_zip(Path({str(path)!r}))\n"
        "import shop.prices; print(shop.prices.__file__[-3:])"
    )
    assert imported(path, program) == ".py"


def test_a_second_run_changes_nothing(home: Path) -> None:
    assert "pyspark.zip: 2 modules, 2 compiled now" in warm(home).output
    files = {path: (path.stat().st_ino, path.read_bytes()) for path in zips(home)}
    again = warm(home)
    assert "pyspark.zip: 2 modules, all compiled before" in again.output
    assert "py4j-1.2-src.zip: 2 modules, all compiled before" in again.output
    assert {path: (path.stat().st_ino, path.read_bytes()) for path in zips(home)} == files
    assert len([*(home / "python/lib").iterdir()]) == 2


def test_check_changes_nothing(home: Path) -> None:
    before = {path: path.read_bytes() for path in zips(home)}
    cold = warm(home, "--check")
    assert cold.exit_code == 1
    assert "pyspark.zip: 2 modules, 2 not compiled" in cold.output
    assert f"have no bytecode for Python {sys.version.split()[0]}" in cold.output
    assert {path: path.read_bytes() for path in zips(home)} == before
    assert warm(home).exit_code == 0
    assert warm(home, "--check").exit_code == 0


@pytest.mark.parametrize("changed", ["the Python", "the source"])
def test_bytecode_of_another_python_or_source_is_replaced(
    home: Path, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    path = home / "python/lib/pyspark.zip"
    if changed == "the Python":
        with monkeypatch.context() as other:
            other.setattr(warming, "MAGIC_NUMBER", b"old\n")
            warm_zip(path)
    else:
        with monkeypatch.context() as other:
            other.setattr(warming, "source_hash", lambda _: b"another.")
            warm_zip(path)
    assert warm_zip(path).cold == 2
    with ZipFile(path) as archive:
        assert len(archive.namelist()) == len({*archive.namelist()}) == len(CONTENTS) + 2
    assert warm_zip(path).cold == 0
    assert imported(path, "import shop; print(shop.__file__[-4:])") == ".pyc"


def test_a_failure_leaves_the_file_as_it_was(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Path, target: Path) -> None:
        raise PermissionError(13, "Permission denied", str(target))

    monkeypatch.setattr(Path, "replace", refuse)
    before = {path.name: path.read_bytes() for path in zips(home)}
    failed = warm(home)
    assert failed.exit_code == 1
    assert failed.output.splitlines()[-1].startswith("Error: ")
    assert "Permission denied. Run this as the owner of the folder" in failed.output
    assert {path.name: path.read_bytes() for path in (home / "python/lib").iterdir()} == before


@pytest.mark.parametrize("given", [["--spark-home"], []], ids=["option", "SPARK_HOME"])
def test_a_folder_without_pyspark_zip_is_named(tmp_path: Path, given: list[str]) -> None:
    """The bytecode would be where no process of Spark finds it."""
    for folder, said in (
        (tmp_path, "has no python/lib/pyspark.zip"),
        (tmp_path / "a", "not exist"),
    ):
        option, variable = [*given, str(folder)][: 2 * len(given)], {"SPARK_HOME": str(folder)}
        failed = CliRunner(env={} if given else variable).invoke(program, ["warm", *option])
        assert failed.exit_code != 0
        assert str(folder) in failed.output
        assert said in failed.output


def test_packages_are_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "warmed_package"
    package.mkdir()
    (package / "__init__.py").write_text("x = 1\n")
    (package / "more.py").write_text("y = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    found = warm_package("warmed_package", check=True)
    assert found is not None
    assert (found.modules, found.cold) == (2, 2)
    assert not (package / "__pycache__").exists()
    found = warm_package("warmed_package")
    assert found is not None
    assert (found.modules, found.cold) == (2, 2)
    found = warm_package("warmed_package")
    assert found is not None
    assert found.cold == 0
    (package / "more.py").write_text("y = 2; z = 3\n")
    found = warm_package("warmed_package", check=True)
    assert found is not None
    assert found.cold == 1


def test_packages_are_compiled_in_a_reproducible_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then `py_compile` writes hashes of the sources."""
    (tmp_path / "reproducible_package").mkdir()
    (tmp_path / "reproducible_package/__init__.py").write_text("x = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    warmed = [warm_package("reproducible_package", check=check) for check in (False, True)]
    assert [each.cold for each in warmed if each is not None] == [1, 0]
    (tmp_path / "reproducible_package/__init__.py").write_text("x = 2\n")
    again = warm_package("reproducible_package", check=True)
    assert again is not None
    assert again.cold == 1


def test_a_link_to_a_zip_file_stays_one(home: Path) -> None:
    path = home / "python/lib/pyspark.zip"
    elsewhere = path.rename(home / "elsewhere.zip")
    path.symlink_to(elsewhere)
    assert warm_zip(path).cold == 2
    assert path.is_symlink()
    assert warm_zip(elsewhere).cold == 0


def test_a_package_that_is_not_installed_is_left_out() -> None:
    assert warm_package("tandem_kafka_has_no_such_package") is None


@pytest.mark.full("takes long with Spark")
def test_pyspark_starts_from_bytecode(tmp_path: Path) -> None:
    lib = tmp_path / "python" / "lib"
    lib.mkdir(parents=True)
    for path in zips(Path(pyspark.__file__).parent):
        with ZipFile(path) as found, ZipFile(lib / path.name, "w", ZIP_DEFLATED) as cold:
            for each in found.infolist():
                if not each.filename.endswith(".pyc"):  # this one may be warm
                    cold.writestr(each, found.read(each))
    paths = zips(tmp_path)
    assert [path.name.partition("-")[0].partition(".")[0] for path in paths] == ["py4j", "pyspark"]
    assert all(warm_zip(path).cold > 0 for path in paths)
    program = (
        "import sys, pyspark.sql.worker.create_data_source\n"
        "files = [getattr(each, '__file__', None) or '' for each in sys.modules.values()]\n"
        "print(*{file[-4:] for file in files if '.zip' in file})"
    )
    assert imported(Path(os.pathsep.join(map(str, paths))), program) == ".pyc"
