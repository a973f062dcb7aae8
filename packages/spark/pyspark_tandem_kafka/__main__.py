"""`python -m pyspark_tandem_kafka warm`: prepares a machine or an image for jobs in Python."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import click

from pyspark_tandem_kafka.warming import PACKAGES, Warmed, warm_package, warm_zip, zips


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def program() -> None:
    """Prepares a machine or an image for Spark jobs in Python."""


@program.command()
@click.option(
    "--spark-home",
    envvar="SPARK_HOME",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of Spark. Default: SPARK_HOME, or the installed pyspark.",
)
@click.option("--check", is_flag=True, help="Change nothing; exit with 1 if something is cold.")
def warm(spark_home: Path | None, *, check: bool) -> None:
    """Compile what Spark's Python processes import, for the Python that runs this command.

    Spark's processes import PySpark from python/lib/pyspark.zip, which has no bytecode: without
    this, each of them compiles PySpark again. The bytecode is added to pyspark.zip and to py4j's,
    and to the folders of the installed packages. It is safe to repeat, also while jobs run.
    """
    home = spark_home or _installed()
    archives = zips(home) if home is not None else []
    if spark_home is not None and not archives:
        raise click.ClickException(
            f"{home} has no python/lib/pyspark.zip: give the folder of Spark"
        )
    cold = 0
    for each in _warmed(archives, check=check):
        click.echo(_line(each, check=check))
        cold += each.cold
    python = f"Python {platform.python_version()} ({sys.executable})"
    if check and cold:
        raise click.ClickException(f"{cold:,} modules have no bytecode for {python}: run warm")
    click.echo(f"All of them have bytecode for {python}.")


def _warmed(archives: list[Path], *, check: bool) -> Iterator[Warmed]:
    try:
        for path in archives:
            yield warm_zip(path, check=check)
        for name in PACKAGES:
            warmed = warm_package(name, check=check)
            if warmed is not None:
                yield warmed
    except OSError as error:
        raise click.ClickException(
            f"{error.filename}: {error.strerror}. Run this as the owner of the folder, for example "
            "while you build the image"
        ) from error


def _installed() -> Path | None:
    spec = find_spec("pyspark")
    return Path(spec.origin).parent if spec is not None and spec.origin is not None else None


def _line(warmed: Warmed, *, check: bool) -> str:
    if not warmed.cold:
        return f"{warmed.place}: {warmed.modules:,} modules, all compiled before"
    done = "not compiled" if check else "compiled now"
    return f"{warmed.place}: {warmed.modules:,} modules, {warmed.cold:,} {done}"


if __name__ == "__main__":
    program(prog_name="python -m pyspark_tandem_kafka")
