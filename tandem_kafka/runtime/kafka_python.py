"""kafka-python, of which only the modules run that somebody uses.

Importing any module of kafka-python runs its package, which imports the admin client, the producer
and the consumer. That takes longer than everything of it that this package uses. Therefore the
modules of `LAZY` are imported here, but do not run: each is the real module, in `sys.modules` under
its name, and it runs when somebody asks for a name that it does not have yet. Programs that import
kafka-python see no difference (`tests/unit/test_kafka_python.py`).

Packages and modules that import kafka-python import this module first
(`tests/unit/test_imports.py`). Its other names are those of kafka-python.

kafka-python 3.0 reads its message schemas with `importlib.resources.read_text`, which Python 3.11
and 3.12 deprecate. With `-W error` the warning would keep a program from importing this package.
All modules that read schemas are in `LAZY`, and run without the warning.
"""

from __future__ import annotations

import os
import sys
import threading
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import _bootstrap, import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final

#: Invariant: a module that runs while one of these runs asks it for no name but a submodule's.
#: Otherwise two threads could wait for each other, one for the import of that module.
LAZY: Final = (
    "kafka",
    "kafka.consumer",
    "kafka.consumer.fetcher",
    "kafka.coordinator.assignors.sticky.user_data",
    "kafka.net",
    "kafka.net.sasl",
    "kafka.protocol.admin",
    "kafka.protocol.api_header",
    "kafka.protocol.consumer",
    "kafka.protocol.consumer.fetch",
    "kafka.protocol.consumer.group",
    "kafka.protocol.consumer.metadata",
    "kafka.protocol.consumer.offsets",
    "kafka.protocol.metadata",
    "kafka.protocol.metadata.api_versions",
    "kafka.protocol.metadata.find_coordinator",
    "kafka.protocol.metadata.metadata",
    "kafka.protocol.producer",
    "kafka.protocol.sasl",
)
_PACKAGE: Final = "kafka"

#: Invariant: locks of the import system, which knows what each thread waits for. Threads that hold
#: one of these wait for imports, and threads that import wait for these; with other locks, three
#: imports at once could wait for each other for ever.
_locks: Final[dict[str, Any]] = {
    name: _bootstrap._ModuleLock(name)  # type: ignore[attr-defined]  # noqa: SLF001
    for name in LAZY
}
#: Guards the fields below and the ends of lazy modules. Nothing waits while it is held.
_state = threading.Lock()
#: What runs, with the names that it had before.
_running: dict[str, frozenset[str]] = {}
_actions: defaultdict[str, list[Callable[[Any], None]]] = defaultdict(list)


def _forget_other_threads() -> None:
    """After a fork, what threads of the parent ran or would have released is for this one."""
    global _state  # noqa: PLW0603 - another thread may have held it
    _state = threading.Lock()
    for name, lock in _locks.items():
        if lock.owner != threading.get_ident():
            _locks[name] = type(lock)(name)
            _end(name)


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork()
    os.register_at_fork(after_in_child=_forget_other_threads)


@contextmanager
def schemas_may_be_read() -> Iterator[None]:
    """Ignore the warnings that kafka-python causes when it reads a message schema."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "(read|open)_text is deprecated", DeprecationWarning)
        yield


class _LazyModule(ModuleType):
    """A module that has not run yet; when it has, it is an ordinary one."""

    def __getattribute__(self, name: str) -> Any:
        if name in ("__dict__", "__doc__"):
            _run(self)
        return ModuleType.__getattribute__(self, name)

    def __getattr__(self, name: str) -> Any:
        _run(self)
        return ModuleType.__getattribute__(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        # The import system sets submodules and names like `__spec__`.
        if not isinstance(value, ModuleType) and not name.startswith("__"):
            _run(self)
        ModuleType.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        _run(self)
        ModuleType.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        _run(self)
        return [*ModuleType.__dir__(self)]


@contextmanager
def _alone(name: str) -> Iterator[None]:
    """Wait for other threads that run a module, unless one of them waits for this thread."""
    lock, this_thread = _locks[name], threading.get_ident()
    if lock.owner == this_thread:
        yield
        return
    try:
        with suppress(RuntimeError):  # a deadlock: as in other imports in a circle, nobody waits
            lock.acquire()
        yield
    finally:
        if lock.owner == this_thread:  # also after an interrupt behind acquire()
            lock.release()


@contextmanager
def whole_imports() -> Iterator[None]:
    """Let no other thread run the package meanwhile.

    Two threads that import modules of kafka-python in different orders are an error to Python.
    """
    with _alone(_PACKAGE):
        yield


def _run(module: Any) -> None:
    """Run a module once. A thread that asks while another one runs it waits for that."""
    name = module.__name__
    with _alone(name):
        runs = False
        try:
            with _state:
                if type(module) is _LazyModule and name not in _running:
                    runs = True  # first: an interrupt leaves no module behind that never runs
                    _running[name] = frozenset(_names(module))
            if runs:
                _complete(module)
        except Exception:  # as it is: in a circle of imports, others may use what it has
            if runs:
                _running.pop(name, None)
            raise
        finally:
            if runs:
                _end(name)


def _complete(module: Any) -> None:
    """Run a module, and what waits for it."""
    with schemas_may_be_read():
        module.__spec__.loader.exec_module(module)
    acted = 0
    while not _has_run(module, acted):
        _actions[module.__name__][acted](module)
        acted += 1


def _names(module: ModuleType) -> dict[str, Any]:
    """Return what a module has, without running it."""
    found: dict[str, Any] = ModuleType.__getattribute__(module, "__dict__")
    return found


def _end(name: str) -> None:
    """Note that a module does not run any more.

    One that was interrupted, or that a thread of the parent process ran, begins anew: with what it
    has, nobody would ask it for another name, and what waits for it would never be done.
    """
    before, module = _running.pop(name, None), sys.modules.get(name)
    if before is not None and type(module) is _LazyModule:
        names = _names(module)
        for each in [*names]:
            if each not in before and not isinstance(names[each], ModuleType):
                del names[each]


def _has_run(module: Any, acted: int) -> bool:
    """Make a module an ordinary one, unless more actions wait for it.

    Until then, they are kept: in a child process, another thread would have finished them.
    """
    with _state:
        if acted < len(_actions[module.__name__]):
            return False
        module.__class__ = ModuleType
        return True


def when_run(name: str, action: Callable[[Any], None]) -> None:
    """Call an action with a module of `LAZY` when it has run: now, or then."""
    module = import_module(name)
    with _state:
        waits = type(module) is _LazyModule
        if waits:
            _actions[name].append(action)
    if not waits:
        action(module)


class _LazyLoader(Loader):
    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self._loader.create_module(spec)
        return made

    def exec_module(self, module: Any) -> None:
        module.__spec__.loader = module.__loader__ = self._loader
        module.__class__ = _LazyModule


class _LazyFinder(MetaPathFinder):
    """Finds what the others find, and wraps the loader."""

    def __init__(self) -> None:
        self._asked: set[str] = set()

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in LAZY or name in self._asked:  # another finder may ask all of them again
            return None
        self._asked.add(name)
        # Invariant: nothing is imported here. Finders are called with the import lock, which the
        # thread that imports the package may need before it has done so.
        others = [each for each in sys.meta_path if not isinstance(each, _LazyFinder)]
        specs = (each.find_spec(name, path, target) for each in others)
        spec = next(filter(None, specs), None)
        if spec is not None:
            spec.loader = _LazyLoader(spec.loader)
        return spec


def _import_lazily() -> None:
    finder = _LazyFinder()
    sys.meta_path.insert(0, finder)  # no effect on what is imported already
    try:
        for name in LAZY:
            try:
                # As `import` does, and unlike `import_module`, in a circle of imports it takes
                # the module as it is.
                __import__(name)
            except ModuleNotFoundError:  # another release of kafka-python
                if name == _PACKAGE:
                    raise
        # Invariant: they are loaded, so `from kafka import errors` does not run the package.
        for name in ("errors", "structs"):
            loaded = import_module(f"{_PACKAGE}.{name}")
            # Again: after an import that failed, the package may be new and its modules old.
            ModuleType.__setattr__(sys.modules[_PACKAGE], name, loaded)
    finally:
        sys.meta_path.remove(finder)


with whole_imports():
    _import_lazily()


def __getattr__(name: str) -> Any:
    return getattr(sys.modules[_PACKAGE], name)
