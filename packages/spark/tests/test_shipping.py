"""Ways to bring the package to the workers of a cluster (docs/reference/spark-clusters.md)."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: make spark-test installs it")

from packages.spark.tests.mistakes import first_line, without
from packages.spark.tests.standalone import HOME, QUICK_START, StandaloneCluster
from tandem_kafka_testing.kafka import RealKafka
from tests.sources import PACKAGES, PYTHONPATH

pytestmark = [pytest.mark.full("takes long with Spark"), pytest.mark.timeout(400)]

#: A Python without the packages of this environment.
BARE = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}"
ENVIRONMENT = f"environment/lib/python3.{sys.version_info.minor}/site-packages"


@pytest.fixture
def dependencies(tmp_path: Path) -> Path:
    """All packages of this environment except this one."""
    if not BARE.exists():
        pytest.skip(f"there is no {BARE}")
    folder = tmp_path / "dependencies"
    folder.mkdir()
    for name in ("purelib", "platlib"):
        for each in Path(sysconfig.get_path(name)).iterdir():
            link = folder / each.name
            left_out = "tandem_kafka" in each.name or each.name.startswith("pyspark")
            if not left_out and each.suffix != ".pth" and not link.exists():
                link.symlink_to(each)
    return folder


def copy_package(folder: Path) -> None:
    """Copy the files of pure wheels."""
    for package in PACKAGES:
        ignored = shutil.ignore_patterns("*.so", "*.pyd", "__pycache__")
        shutil.copytree(package, folder / package.name, ignore=ignored)


class Submission:
    """A job for spark-submit on a cluster."""

    def __init__(self, cluster: StandaloneCluster, kafka: RealKafka, topic: str) -> None:
        self._cluster = cluster
        target = kafka.admin.create_topic(f"{topic}-copy")
        kafka.admin.produce(topic, [b"%d" % n for n in range(20)])
        self._arguments = [kafka.bootstrap(), topic, target]

    def run(
        self, folder: Path, *options: str, register: bool = False, **environment: str
    ) -> dict[str, str]:
        """Return the lines that the job prints, by their names."""
        settings = {
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.extraJavaOptions": QUICK_START,
            "spark.executor.extraJavaOptions": QUICK_START,
            "spark.executor.memory": "512m",
        }
        conf = [word for each in settings.items() for word in ("--conf", "=".join(each))]
        command = [str(HOME / "bin" / "spark-submit"), "--master", self._cluster.master]
        job = [str(Path(__file__).with_name("shipped_job.py")), *self._arguments]
        cleared = {
            name: text
            for name, text in os.environ.items()
            if name not in ("PYTHONPATH", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
        }
        ran = subprocess.run(
            [*command, *conf, *options, *job, *(["register"] if register else [])],
            cwd=folder,
            env={**cleared, "SPARK_HOME": str(HOME), **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=340,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr[-4_000:]
        return dict(line.split(": ", 1) for line in ran.stdout.splitlines() if ": " in line)


@pytest.fixture
def submission(standalone: StandaloneCluster, kafka: RealKafka, topic: str) -> Submission:
    return Submission(standalone, kafka, topic)


@pytest.mark.parametrize("package", ["tandem_kafka", "confluent_kafka"])
def test_an_error_says_what_to_install_on_which_worker(
    submission: Submission, tmp_path: Path, package: str
) -> None:
    blocked = without(tmp_path, package)["PYTHONPATH"]
    said = submission.run(
        tmp_path,
        *("--conf", f"spark.executorEnv.PYTHONPATH={blocked}"),
        *("--conf", f"spark.executorEnv.BLOCKED={package}"),
        PYSPARK_PYTHON=sys.executable,
        PYTHONPATH=PYTHONPATH,
    )
    begin = f"tandem_kafka: {package} is not installed on the worker "
    failed = {name: first_line(json.loads(text)) for name, text in said.items() if "failed" in name}
    assert failed["write failed"].startswith(begin)
    assert re.search(r" for \S+: install tandem-kafka\[spark\] there", failed["write failed"])
    if package == "tandem_kafka":
        assert failed["read failed"].startswith(begin)
    else:
        assert said["read"] == "20"  # only writing needs it


def test_py_files_with_the_pure_wheel_named_zip(
    submission: Submission, tmp_path: Path, dependencies: Path
) -> None:
    """The name of the wheel must end in .zip, and the job must register the source."""
    copy_package(tmp_path / "wheel")
    wheel = tmp_path / "tandem_kafka.zip"
    with zipfile.ZipFile(wheel, "w") as into:
        for each in (tmp_path / "wheel").rglob("*.*"):
            into.write(each, each.relative_to(tmp_path / "wheel"))
    said = submission.run(
        tmp_path,
        *("--py-files", str(wheel)),
        *("--conf", f"spark.executorEnv.PYTHONPATH={dependencies}"),
        register=True,
        PYSPARK_PYTHON=str(BARE),
        PYTHONPATH=str(dependencies),
    )
    assert (said.get("read"), said.get("write")) == ("20", "None"), said
    assert "tandem_kafka.zip" in said["package"]


def packed(tmp_path: Path, dependencies: Path) -> Path:
    """Pack a virtual environment with this package; a path file adds its dependencies."""
    environment = tmp_path / "environment"
    venv.create(environment, symlinks=True)
    copy_package(tmp_path / ENVIRONMENT)
    (tmp_path / ENVIRONMENT / "dependencies.pth").write_text(str(dependencies))
    archive = tmp_path / "environment.tar.gz"
    with tarfile.open(archive, "w:gz") as into:
        into.add(environment, arcname=".")
    return archive


def test_archives_with_the_packages_only(
    submission: Submission,
    tmp_path: Path,
    dependencies: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """All machines have the same Python; only packages are shipped."""
    archive = packed(tmp_path, dependencies)
    said = submission.run(
        tmp_path_factory.mktemp("elsewhere"),
        *("--archives", f"{archive}#environment"),
        *("--conf", f"spark.executorEnv.PYTHONPATH=./{ENVIRONMENT}{os.pathsep}{dependencies}"),
        PYSPARK_PYTHON=str(BARE),
        PYTHONPATH=os.pathsep.join((PYTHONPATH, str(dependencies))),
    )
    assert (said.get("read"), said.get("write")) == ("20", "None"), said
    assert said["package"].endswith(f" {BARE}")
    assert ENVIRONMENT in said["package"]


def test_archives_with_an_environment_and_its_python(
    submission: Submission, tmp_path: Path, dependencies: Path
) -> None:
    """The driver plans with that Python, too, in the folder in which the job starts."""
    archive = packed(tmp_path, dependencies)
    said = submission.run(
        tmp_path,
        *("--archives", f"{archive}#environment"),
        PYSPARK_PYTHON="./environment/bin/python",
    )
    assert (said.get("read"), said.get("write")) == ("20", "None"), said
    package, python = said["package"].split(" ")
    assert ENVIRONMENT in package
    assert not package.startswith(str(tmp_path))
    assert python.endswith("environment/bin/python")
