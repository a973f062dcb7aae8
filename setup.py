"""Builds the native extension (rust/) if a Rust toolchain exists; the rest is in pyproject.toml.

`TANDEM_KAFKA_NATIVE` in the environment decides:

    auto      build it if possible, otherwise install pure Python (the default)
    require   fail if it cannot be built
    off       do not build it

A wheel without the extension is tagged py3-none-any, so that it is not mistaken for a native one.

`TANDEM_KAFKA_REPOSITORY` is the address of the published repository. With it, the links of the
README lead there from a package index, too. `DOCS_URL` is that of the manual, for the links to its
pages.
"""

import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools_rust import Binding, RustExtension

MODES = ("auto", "require", "off")
mode = os.environ.get("TANDEM_KAFKA_NATIVE") or "auto"
if mode not in MODES:
    raise SystemExit(f"TANDEM_KAFKA_NATIVE={mode}: must be one of {', '.join(MODES)}")

#: File name suffixes of the extension; the stub _native.pyi always exists.
LIBRARIES = {".so", ".pyd"}
MANIFEST = Path(__file__).with_name("rust") / "Cargo.toml"
HINT = (
    "tandem-kafka is installed without its native extension and runs in pure Python, several times "
    "slower. To build it: install Rust {needed} or newer, then run "
    "TANDEM_KAFKA_NATIVE=require pip install --force-reinstall --no-cache-dir tandem-kafka"
)


def least_rust() -> str:
    """Return the oldest Rust that compiles the extension."""
    found = re.search(
        r'^rust-version = "([\d.]+)"', MANIFEST.read_text(encoding="utf-8"), re.MULTILINE
    )
    assert found, f"{MANIFEST} has no rust-version"
    return found[1]


def missing_toolchain() -> str | None:
    """Return why the extension cannot be compiled here, or None."""
    compiler = os.environ.get("RUSTC", "rustc")
    try:
        subprocess.run(["cargo", "--version"], check=True, capture_output=True)
        said = subprocess.run([compiler, "--version"], check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        return f"no Rust toolchain: {error}"
    version = re.search(r"(\d+)\.(\d+)", said.stdout)
    needed = tuple(int(part) for part in least_rust().split(".")[:2])
    if version and (int(version[1]), int(version[2])) < needed:
        return f"{said.stdout.strip()} is older than Rust {least_rust()}"
    return None


def is_native() -> bool:
    """Decide whether to compile; fails if the extension is required and cannot be compiled."""
    problem = missing_toolchain() if mode != "off" else None
    if problem and mode == "require":
        raise SystemExit(f"TANDEM_KAFKA_NATIVE=require: {problem}; Rust {least_rust()} is needed")
    if problem:
        warn(problem)
    return mode != "off" and not problem


def warn(problem: str) -> None:
    """Print why the extension is missing, and how to get it."""
    print(f"warning: {problem}. {HINT.format(needed=least_rust())}", file=sys.stderr)


def published(readme: str, repository: str, tag: str, manual: str) -> str:
    """Return the README with links and pictures of a tag of the repository, and of the manual."""
    pages, files = f"{repository}/blob/{tag}", f"{repository}/raw/{tag}"
    if manual:
        readme = re.sub(r"\]\(docs/([^)#]+)\.md(#[^)]*)?\)", rf"]({manual}/\1.html\2)", readme)
    text = re.sub(r'(src|srcset)="(?!https?:)([^"]+)"', rf'\1="{files}/\2"', readme)
    text = re.sub(r"(!\[[^\]]*\])\((?!https?:)([^)]+)\)", rf"\1({files}/\2)", text)
    return re.sub(r"\]\((?!https?:|#)([^)]+)\)", rf"]({pages}/\1)", text)


def address(variable: str) -> str:
    """Return an address without a slash at its end, or nothing."""
    return os.environ.get(variable, "").strip().rstrip("/")


def about() -> dict[str, object]:
    """Return the README and the URLs for the metadata."""
    here = Path(__file__).parent
    readme = (here / "README.md").read_text(encoding="utf-8")
    repository = address("TANDEM_KAFKA_REPOSITORY").removesuffix(".git")
    manual = address("DOCS_URL")
    urls = {}
    if repository:
        version = (here / "tandem_kafka" / "version.py").read_text(encoding="utf-8")
        found = re.search(r'^__version__.*"([^"]+)"', version, re.MULTILINE)
        assert found, "tandem_kafka/version.py has no version"
        tag = f"v{found[1]}"
        readme = published(readme, repository, tag, manual)
        urls = {
            "Source": repository,
            "Documentation": manual or f"{repository}/blob/{tag}/docs/index.md",
            "Changelog": f"{repository}/blob/{tag}/CHANGELOG.md",
            "Issues": f"{repository}/issues",
        }
    return {
        "long_description": readme,
        "long_description_content_type": "text/markdown",
        "project_urls": urls,
    }


class Wheel(bdist_wheel):
    """A wheel whose tag says whether the extension is inside."""

    def run(self) -> None:
        """Compile first, and make a pure wheel if that failed in the mode auto."""
        if self.distribution.rust_extensions:
            self.run_command("build")
            package = Path(self.get_finalized_command("build").build_lib) / "tandem_kafka"
            if not any(path.suffix in LIBRARIES for path in package.glob("_native.*")):
                warn("the native extension did not compile (pip install -v shows the reason)")
                self._make_pure()
        super().run()

    def _make_pure(self) -> None:
        self.distribution.rust_extensions = []
        self.distribution.has_ext_modules = lambda: False  # setuptools-rust made it say True
        self.root_is_pure = True


native = is_native()
free_threaded = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
extension = RustExtension(
    "tandem_kafka._native",
    path="rust/Cargo.toml",
    binding=Binding.PyO3,
    debug=False,  # also for an editable install: a debug build is slower than pure Python
    optional=mode == "auto",
)
# A free-threaded Python has no stable ABI: its wheel is for one version.
stable_abi = native and not free_threaded
setup(
    rust_extensions=[extension] if native else [],
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if stable_abi else {},
    cmdclass={"bdist_wheel": Wheel},
    **about(),
)
