"""The native twin, loaded once: the one place that decides whether it is used.

`TANDEM_KAFKA_IMPL` says what is wanted. `python` never loads the extension; `native` makes its
absence an error at import; unset takes it where it is, and Python where it is not.

A library that does not fit this version of the package is an error however it is wanted: it is
left over from another build, and what it would do is not what the Python beside it does.
"""

from __future__ import annotations

import importlib
import logging
import os
from types import ModuleType
from typing import Final

__all__ = ["ABI", "load", "log_fallback", "native", "native_available"]

log = logging.getLogger(__name__)

#: What `_native.ABI` must be; changed in both places together.
ABI: Final = 5

_MODULE: Final = "tandem_kafka._native"
_VARIABLE: Final = "TANDEM_KAFKA_IMPL"


def load(wanted: str | None) -> tuple[ModuleType | None, str]:
    """Return the extension, or None and the reason why it is not used.

    Args:
        wanted: The value of `TANDEM_KAFKA_IMPL`; None or empty for no wish.

    Raises:
        ImportError: It is wanted and cannot be had, or it is from another build.
    """
    if wanted not in {None, "", "python", "native"}:
        raise ImportError(f"{_VARIABLE}={wanted}: must be python or native")
    if wanted == "python":
        return None, f"{_VARIABLE}=python"
    try:
        module = importlib.import_module(_MODULE)
    except ImportError as error:
        if wanted == "native":
            raise ImportError(
                f"{_VARIABLE}=native, but the native extension cannot be loaded: {error} "
                f"(install with TANDEM_KAFKA_NATIVE=require to build it, or unset {_VARIABLE})"
            ) from error
        return None, f"the native extension cannot be loaded: {error}"
    found = getattr(module, "ABI", None)
    if found != ABI:
        raise ImportError(
            f"{getattr(module, '__file__', _MODULE)} is from another build of tandem-kafka "
            f"(its ABI is {found}, this version needs {ABI}): install the package again, "
            f"or set {_VARIABLE}=python"
        )
    return module, ""


_loaded = load(os.environ.get(_VARIABLE))

#: The extension, or None; its types are in `_native.pyi`.
native: Final = _loaded[0]

#: Whether there is an extension and it may be used.
native_available: Final = native is not None

_REASON: Final = _loaded[1]


def log_fallback() -> None:
    """Log why Python does the work, where it does; a consumer says so when it starts."""
    if not native_available:
        log.info("using the Python implementation, not the native one: %s", _REASON)
