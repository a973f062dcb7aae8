"""Builds the native twin (rust/) where a Rust toolchain is found; the rest is in pyproject.toml.

`TANDEM_KAFKA_NATIVE` in the environment decides:

    auto      build it if that is possible, else install without it (the default)
    require   fail if it cannot be built
    off       do not build it
"""

import os

from setuptools import setup
from setuptools_rust import Binding, RustExtension

MODES = ("auto", "require", "off")
mode = os.environ.get("TANDEM_KAFKA_NATIVE") or "auto"
if mode not in MODES:
    raise SystemExit(f"TANDEM_KAFKA_NATIVE={mode}: must be one of {', '.join(MODES)}")

extension = RustExtension(
    "tandem_kafka._native",
    path="rust/Cargo.toml",
    binding=Binding.PyO3,
    debug=False,  # also for an editable install: a debug build is slower than the Python twin
    optional=mode == "auto",
)
native = mode != "off"
setup(
    rust_extensions=[extension] if native else [],
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if native else {},
)
