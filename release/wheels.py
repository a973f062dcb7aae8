"""Builds wheels for Linux and the sdists into dist/: `python -m release.wheels`.

A native wheel is the pure wheel plus the extension, which cargo-zigbuild compiles for each target.
The extension uses Python's stable ABI, so no Python of the target is needed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from elftools.elf.elffile import ELFFile

from release.crates import bill_of_materials, third_party_licences

ROOT: Final = Path(__file__).parents[1]
DIST: Final = ROOT / "dist"
RUST: Final = ROOT / "rust"
#: What each distribution holds: its folder in the repository, and packages in it.
DISTRIBUTIONS: Final = {
    "tandem_kafka": (".", ("tandem_kafka/",)),
    "tandem_kafka_cli": ("packages/cli", ("tandem_kafka_cli/",)),
    "tandem_kafka_testing": ("packages/testing", ("tandem_kafka_testing/",)),
    "pyspark_tandem_kafka": ("packages/spark", ("pyspark_tandem_kafka/",)),
}
#: The oldest Python whose stable ABI the extension uses (pyo3's feature abi3-py311).
PYTHON_TAG: Final = "cp311"


@dataclass(frozen=True)
class Target:
    """One platform.

    Attributes:
        triple: Rust's name of it.
        platform: The platform tag of the wheel.
        glibc: The oldest glibc that the extension runs with; empty for musl.
        flags: Flags for rustc.
    """

    triple: str
    platform: str
    glibc: str = ""
    flags: str = ""


TARGETS: Final = (
    Target("x86_64-unknown-linux-gnu", "manylinux_2_17_x86_64", glibc="2.17"),
    Target("aarch64-unknown-linux-gnu", "manylinux_2_17_aarch64", glibc="2.17"),
    Target(
        "x86_64-unknown-linux-musl", "musllinux_1_2_x86_64", flags="-C target-feature=-crt-static"
    ),
    Target(
        "aarch64-unknown-linux-musl", "musllinux_1_2_aarch64", flags="-C target-feature=-crt-static"
    ),
)


def main() -> None:
    """Build the sdists, the pure wheels and a native wheel for each target."""
    parser = argparse.ArgumentParser(prog="python -m release.wheels", description=__doc__)
    names = [target.platform for target in TARGETS]
    parser.add_argument("--only", nargs="+", choices=names, default=names, help="platforms")
    chosen = parser.parse_args().only
    shutil.rmtree(DIST, ignore_errors=True)
    pure = _pure_wheels()
    for target in TARGETS:
        if target.platform in chosen:
            library = _compile(target)
            _audit(_native_wheel(pure, target, library), target, library)
    for path in sorted(DIST.iterdir()):
        print(f"{path.stat().st_size / 1e6:7.2f} MB  {path.name}")


def _pure_wheels() -> Path:
    """Build what needs no compiler; returns the wheel that native ones are made of."""
    environment = {**os.environ, "TANDEM_KAFKA_NATIVE": "off"}
    for folder, _ in DISTRIBUTIONS.values():
        path = str(ROOT / folder)
        _run(sys.executable, "-m", "build", "--outdir", str(DIST), path, env=environment)
    return next(DIST.glob("tandem_kafka-*-py3-none-any.whl"))


def _compile(target: Target) -> Path:
    _run("rustup", "target", "add", target.triple)
    environment = {
        **os.environ,
        "RUSTFLAGS": target.flags,
        "PYO3_NO_PYTHON": "1",
        "PYO3_BUILD_EXTENSION_MODULE": "1",  # Python itself is not linked
    }
    suffix = f".{target.glibc}" if target.glibc else ""
    _run(
        *("cargo", "zigbuild", "--release", "--lib", "--target", target.triple + suffix),
        cwd=RUST,
        env=environment,
    )
    return RUST / "target" / target.triple / "release" / "lib_native.so"


def _native_wheel(pure: Path, target: Target, library: Path) -> Path:
    with tempfile.TemporaryDirectory() as folder:
        _run(sys.executable, "-m", "wheel", "unpack", "--dest", folder, str(pure))
        unpacked = next(Path(folder).iterdir())
        shutil.copy(library, unpacked / "tandem_kafka" / "_native.abi3.so")
        information = next(unpacked.glob("*.dist-info"))
        licences = information / "licenses" / "THIRD-PARTY-LICENSES"
        licences.write_text(third_party_licences(RUST, target.triple), encoding="utf-8")
        bill = information / "sboms" / "tandem-kafka.cdx.json"
        bill.parent.mkdir()
        version = unpacked.name.partition("-")[2]
        bill.write_text(bill_of_materials(RUST, target.triple, version), encoding="utf-8")
        description = information / "WHEEL"
        text = description.read_text(encoding="utf-8")
        text = text.replace("Root-Is-Purelib: true", "Root-Is-Purelib: false")
        tag = f"{PYTHON_TAG}-abi3-{target.platform}"
        description.write_text(text.replace("py3-none-any", tag), encoding="utf-8")
        _run(sys.executable, "-m", "wheel", "pack", "--dest-dir", str(DIST), str(unpacked))
    return next(DIST.glob(f"*-{tag}.whl"))


def _audit(wheel: Path, target: Target, library: Path) -> None:
    """Check that the wheel needs no more of the system than its tag promises.

    auditwheel cannot read a musl wheel on a system with glibc: there, the libraries that the
    extension names are compared with musl's only one.
    """
    if not target.glibc:
        needed = _needed_libraries(library)
        if needed != ["libc.so"]:
            raise SystemExit(
                f"{wheel.name}: needs {needed}; a musllinux wheel may need libc.so only"
            )
        return
    command = [sys.executable, "-m", "auditwheel", "show", str(wheel)]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    if f'"{target.platform}"' not in shown:
        raise SystemExit(f"{wheel.name}: auditwheel does not confirm its tag:\n{shown}")


def _needed_libraries(library: Path) -> list[str]:
    with library.open("rb") as stream:
        dynamic = ELFFile(stream).get_section_by_name(".dynamic")
        return [tag.needed for tag in dynamic.iter_tags() if tag.entry.d_tag == "DT_NEEDED"]


def tracked(*folders: str) -> list[str]:
    """Returns the files that git tracks, below some folders or in all."""
    command = ["git", "-C", str(ROOT), "ls-files", *folders]
    listed = subprocess.run(command, check=True, capture_output=True, text=True)
    return listed.stdout.splitlines()


def _run(*command: str, cwd: Path | None = None, env: dict[str, str] | None = None) -> None:
    print("+", *command, flush=True)
    bin_folder = str(Path(sys.executable).parent)
    environment = dict(env or os.environ)
    environment["PATH"] = f"{bin_folder}{os.pathsep}{environment['PATH']}"
    subprocess.run(command, cwd=cwd, env=environment, check=True)


if __name__ == "__main__":
    main()
