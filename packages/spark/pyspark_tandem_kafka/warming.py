"""Compiles the modules that Spark's Python processes import, once instead of in each process.

Python keeps the bytecode of an imported module beside it, but not in a zip file, from which Spark's
processes import PySpark and py4j. Here, the bytecode is put into the zip files, where Python finds
it before the source.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import py_compile
import shutil
import stat
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import MAGIC_NUMBER, cache_from_source, find_spec, source_hash
from pathlib import Path
from typing import Final
from zipfile import ZipFile, ZipInfo

__all__ = ["PACKAGES", "Warmed", "warm_package", "warm_zip", "zips"]

#: What a job's Python processes import; a package that is not installed is left out.
PACKAGES: Final = (
    *("pyspark", "py4j", "tandem_kafka", "pyspark_tandem_kafka"),
    *("kafka", "pyarrow", "confluent_kafka"),
)
#: Python uses such bytecode without comparing it with the source (PEP 552). Times in a zip file are
#: local times, so bytecode with a time would be stale in another time zone.
_UNCHECKED: Final = (1).to_bytes(4, "little")
#: Python compares such bytecode with the source; py_compile writes it if SOURCE_DATE_EPOCH is set.
_CHECKED: Final = (3).to_bytes(4, "little")
_TIMED: Final = bytes(4)
_HEADER_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class Warmed:
    """A zip file or a package: how many modules it has, and how many had no bytecode."""

    place: Path
    modules: int
    cold: int


def zips(spark_home: Path) -> list[Path]:
    """Return the zip files with Python modules of a Spark; a PySpark for Connect has none."""
    folder = spark_home / "python" / "lib"
    return sorted([*folder.glob("pyspark.zip"), *folder.glob("py4j-*.zip")])


def warm_zip(path: Path, *, check: bool = False) -> Warmed:
    """Add bytecode of all modules but tests to a zip file, for this version of Python.

    Invariant: what was in the file stays where it was, byte for byte. A running Python has the
    positions in mind and opens the file again for each module.

    Args:
        path: The file; a complete new file replaces it.
        check: Change nothing.
    """
    path = path.resolve()  # a link stays one
    with ZipFile(path) as archive:
        sources = [each for each in archive.infolist() if _is_imported(each.filename)]
        cold = [each for each in sources if not _has_bytecode(archive, each.filename)]
    if cold and not check:
        with _replacing(path) as copy, ZipFile(copy, "a") as archive:
            for each in cold:
                with contextlib.suppress(SyntaxError):  # Python would fail to import it, too
                    _add_bytecode(archive, each, path)
    return Warmed(path, len(sources), len(cold))


def _is_imported(name: str) -> bool:
    """Leave out tests: each new process reads the list of files once for each imported package."""
    return name.endswith(".py") and "/tests/" not in name


def _has_bytecode(archive: ZipFile, name: str) -> bool:
    if f"{name}c" not in archive.NameToInfo:
        return False
    with archive.open(f"{name}c") as bytecode:
        return bytecode.read(_HEADER_BYTES) == _header(archive.read(name))


def _header(source: bytes, kind: bytes = _UNCHECKED) -> bytes:
    return MAGIC_NUMBER + kind + source_hash(source)


def _add_bytecode(archive: ZipFile, source: ZipInfo, path: Path) -> None:
    text = archive.read(source)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of PySpark's tests
        code = compile(text, f"{path}/{source.filename}", "exec", dont_inherit=True)
    name = f"{source.filename}c"
    if name in archive.NameToInfo:  # of another Python, or of an older source
        archive.filelist.remove(archive.NameToInfo.pop(name))
    added = ZipInfo(name, source.date_time)
    added.compress_type, added.external_attr = source.compress_type, source.external_attr
    archive.writestr(added, _header(text) + marshal.dumps(code))


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """Lend a copy of a file, which replaces the file at the end, for the same users."""
    number, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(number)
    copy = Path(name)
    try:
        shutil.copy2(path, copy)
        copy.chmod(path.stat().st_mode | stat.S_IWUSR)  # the file may be read-only for its owner
        yield copy
        _give_to_owner(copy, path.stat())
        shutil.copymode(path, copy)
        copy.replace(path)
    finally:
        copy.unlink(missing_ok=True)


def _give_to_owner(copy: Path, file: os.stat_result) -> None:
    """Set the owner and the group of a file, as far as this user may."""
    if hasattr(os, "chown"):  # Windows has none
        for owner, group in ((-1, file.st_gid), (file.st_uid, -1)):
            with contextlib.suppress(PermissionError):
                os.chown(copy, owner, group)


def warm_package(name: str, *, check: bool = False) -> Warmed | None:
    """Write the bytecode of an installed package; None if there is no folder of that name."""
    spec = find_spec(name)
    places = spec.submodule_search_locations if spec is not None else None
    folder = Path(next(iter(places))) if places else None
    if folder is None or not folder.is_dir():
        return None
    sources = sorted(folder.rglob("*.py"))
    cold = [each for each in sources if not _is_compiled(each)]
    if not check:
        for each in cold:
            py_compile.compile(str(each), quiet=2)
    return Warmed(folder, len(sources), len(cold))


def _is_compiled(source: Path) -> bool:
    """Return whether Python would use the bytecode in `__pycache__`."""
    try:
        with Path(cache_from_source(source)).open("rb") as bytecode:
            header = bytecode.read(_HEADER_BYTES)
    except FileNotFoundError:
        return False
    found = source.stat()
    numbers = (int(found.st_mtime) & 0xFFFFFFFF, found.st_size & 0xFFFFFFFF)
    timed = MAGIC_NUMBER + _TIMED + b"".join(each.to_bytes(4, "little") for each in numbers)
    text = source.read_bytes()
    return header in {timed, _header(text), _header(text, _CHECKED)}
