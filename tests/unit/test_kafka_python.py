"""kafka-python, of which only what is used runs: no program sees the difference."""

from __future__ import annotations

from tandem_kafka.runtime.kafka_python import LAZY

import ast
import dis
import subprocess
import sys
from contextlib import suppress
from functools import cache
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, cast

import pytest

from tandem_kafka.runtime import kafka_python
from tests.tier import sample, seeds
from tests.unit.interrupts import Interrupter

OURS = "import tandem_kafka.errors as ours, tandem_kafka.types as types"
FIRST = (
    f"{OURS}\nimport sys\n"
    "assert 'kafka.admin' not in sys.modules and 'kafka.errors' in sys.modules\n"
)


def run(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error::ImportWarning", "-c", program],
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


PROGRAMS = {
    "the package": "import kafka; assert kafka.errors.KafkaError is ours.KafkaError",
    "a submodule": "import kafka.errors; assert kafka.errors.KafkaError is ours.KafkaError",
    "a submodule with a name": "import kafka.errors as e; assert e.KafkaError is ours.KafkaError",
    "from the package": "from kafka import errors; assert errors.KafkaError is ours.KafkaError",
    "from a submodule": "from kafka.errors import KafkaError as E; assert E is ours.KafkaError",
    "another submodule": "import kafka.admin; assert kafka.structs and kafka.errors.KafkaError",
    "the consumer": "from kafka import KafkaConsumer; assert KafkaConsumer.DEFAULT_CONFIG",
    "a name that is set": (
        "import kafka; kafka.Serializer = 3; kafka.KafkaProducer; assert kafka.Serializer == 3"
    ),
    "structs": "import kafka; assert kafka.TopicPartition is types.TopicPartition",
    "the version": "import kafka; assert kafka.__version__[0] == '3'",
    "everything": "from kafka import *; assert KafkaAdminClient and TopicPartition",
    "dir": "import kafka; assert {'admin', 'errors', 'structs', 'KafkaProducer'} <= {*dir(kafka)}",
    "reload": (
        "import kafka, importlib; importlib.reload(kafka); importlib.reload(kafka.structs)\n"
        "assert kafka.errors.KafkaError is ours.KafkaError"
    ),
    "an error of ours": (
        "import kafka.errors\n"
        "try: raise ours.InvalidArgumentError('x')\n"
        "except kafka.errors.KafkaError: pass"
    ),
    "an error of kafka-python": (
        "import kafka\n"
        "try: raise ours.KafkaTimeoutError('x')\n"
        "except kafka.errors.KafkaTimeoutError: pass"
    ),
    "pickle": (
        "import pickle\n"
        "both = types.TopicPartition('t', 1), ours.KafkaError('x')\n"
        "tp, error = pickle.loads(pickle.dumps(both))\n"
        "import kafka\n"
        "assert type(tp) is kafka.TopicPartition and type(error) is kafka.errors.KafkaError\n"
        "assert pickle.loads(pickle.dumps(error)) == error"
    ),
    "a pickled record": (
        "import pickle\n"
        "record = types.ConsumerRecord(*range(13))\n"
        "assert pickle.loads(pickle.dumps(record)) == record\n"
        "import kafka.consumer.fetcher as f; assert isinstance(record, f.ConsumerRecord)"
    ),
    "an import hook": (
        "import wrapt; seen = []\n"
        "wrapt.register_post_import_hook(lambda kafka: seen.append(kafka.KafkaProducer), 'kafka')\n"
        "import kafka; assert seen == [kafka.KafkaProducer]"
    ),
    "a changed attribute": (
        "import kafka; kafka.KafkaConsumer = 1\n"
        "from kafka import KafkaConsumer as changed; import kafka.admin; assert changed == 1\n"
        "assert kafka.KafkaConsumer == 1 and kafka.KafkaProducer"
    ),
    "a patch": (
        "from unittest.mock import patch; import kafka\n"
        "with patch('kafka.KafkaProducer') as mock: assert kafka.KafkaProducer is mock\n"
        "assert isinstance(kafka.KafkaProducer, type)"
    ),
    "a deleted attribute": "import kafka; del kafka.KafkaProducer; assert kafka.KafkaConsumer",
    "an unknown name": (
        "import kafka\n"
        "try: kafka.KafkaStreams\n"
        "except AttributeError as e: assert \"'kafka' has no attribute 'KafkaStreams'\" in str(e)"
    ),
    "vars": "import kafka; assert 'KafkaProducer' in vars(kafka)",
    "the documentation": (
        "import kafka.consumer.fetcher as f; import inspect\n"
        "assert f.__doc__ == inspect.getdoc(f) and inspect.getsource(f)"
    ),
    "messages": (
        "from kafka.protocol.consumer import FetchRequest\n"
        "import kafka.protocol.consumer.fetch as f; assert f.FetchRequest is FetchRequest"
    ),
    "the loader": (
        "import kafka, importlib.resources as r; assert kafka.__spec__.loader is kafka.__loader__\n"
        "assert (r.files('kafka.protocol.schemas') / 'resources').is_dir()\n"
        "assert kafka.errors.__spec__.parent == 'kafka' and kafka.errors.__file__"
    ),
}


@pytest.mark.parametrize("name", sample(PROGRAMS, 3))
def test_kafka_python_is_imported_after_ours(name: str) -> None:
    run(FIRST + PROGRAMS[name])


@pytest.mark.parametrize("name", sample(PROGRAMS, 3))
def test_kafka_python_is_imported_before_ours(name: str) -> None:
    run(f"import kafka, sys\n{OURS}\n{PROGRAMS[name]}")


def test_a_hook_that_was_there_before_sees_the_package_run() -> None:
    run(
        "import wrapt; seen = []\n"
        "wrapt.register_post_import_hook(lambda kafka: seen.append(kafka), 'kafka')\n"
        f"{FIRST}assert not seen or seen[0].KafkaProducer\n"
        "from kafka import KafkaProducer; assert seen == [sys.modules['kafka']]\n"
        "assert seen[0].KafkaProducer is KafkaProducer"
    )


def test_a_record_made_before_is_one_of_kafka_pythons_later() -> None:
    run(
        "import sys, copy\n"
        "from tandem_kafka import ConsumerRecord\n"
        "record = ConsumerRecord(*range(13))\n"
        "assert 'crc32c' not in sys.modules  # the fetcher has not run\n"
        "from kafka.consumer.fetcher import ConsumerRecord as Theirs\n"
        "assert isinstance(record, Theirs) and issubclass(ConsumerRecord, Theirs)\n"
        "assert copy.deepcopy(record) == record == Theirs(*range(13))"
    )


def test_a_broken_package_can_be_asked_again() -> None:
    """An error while it runs reaches the program that asks, each time."""
    run(
        f"{FIRST}import kafka\n"
        "sys.modules['kafka.admin'] = None\n"
        "for _ in range(2):\n"
        "    try: kafka.KafkaProducer\n"
        "    except ImportError: pass\n"
        "    else: raise AssertionError\n"
        "del sys.modules['kafka.admin']; assert kafka.KafkaProducer"
    )


def test_greenlets_import_it() -> None:
    run(
        "from gevent import monkey; monkey.patch_all()\n"
        f"import gevent; {OURS}\n"
        "def ask():\n"
        "    from kafka import KafkaProducer\n"
        "    return KafkaProducer\n"
        "made = [gevent.spawn(ask) for _ in range(5)]\n"
        "gevent.joinall(made, raise_error=True)\n"
        "assert len({each.value for each in made}) == 1"
    )


def test_it_is_imported_from_an_archive(tmp_path: Path) -> None:
    import zipfile

    package = Path(__file__).resolve().parents[2] / "tandem_kafka"
    theirs = find_spec("kafka")
    assert theirs is not None
    assert theirs.origin is not None
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        for folder in (package, Path(theirs.origin).parent):
            for each in [*folder.rglob("*.py"), *folder.rglob("*.json")]:
                archive.write(each, each.relative_to(folder.parent))
    run(
        f"import sys; sys.path.insert(0, {str(tmp_path / 'all.zip')!r})\n"
        "import tandem_kafka; assert '.zip' in tandem_kafka.__file__\n"
        "from tandem_kafka.wire.messages import ConsumerGroupHeartbeatRequest, MetadataRequest\n"
        "import kafka; assert '.zip' in kafka.__file__ and 'kafka.admin' not in sys.modules\n"
        "from kafka import KafkaProducer, errors; assert KafkaProducer and errors.KafkaError"
    )


def test_the_package_has_the_same_names_in_either_order() -> None:
    names = (
        "import kafka; print(sorted(kafka.__dict__), type(kafka), sorted(kafka.errors.__dict__))"
    )
    assert run(f"{FIRST}{names}") == run(names)


@pytest.mark.parametrize("seed", seeds(1, 5))
def test_two_threads_import_at_once(seed: int) -> None:
    """One imports ours and the other kafka-python; a thread switches after each microsecond."""
    run(
        "import sys, threading, time\n"
        "sys.setswitchinterval(1e-6)\n"
        "failed = []\n"
        "statements = [\n"
        "    'import tandem_kafka.errors',\n"
        "    'from kafka import KafkaProducer',\n"
        "    'import tandem_kafka.types',\n"
        "    'from tandem_kafka import KafkaConsumer',\n"
        "]\n"
        "start = threading.Barrier(4)\n"
        "def work(index):\n"
        "    start.wait()\n"
        f"    time.sleep(({seed} * index % 5) / 2000)\n"
        "    try: exec(statements[index])\n"
        "    except BaseException as error: failed.append(error)\n"
        "threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(4)]\n"
        "for each in threads: each.start()\n"
        "for each in threads: each.join(30)\n"
        "assert not failed and not any(each.is_alive() for each in threads), failed\n"
        "import kafka, tandem_kafka.errors as ours\n"
        "assert kafka.errors is sys.modules['kafka.errors']\n"
        "assert ours.KafkaTimeoutError is kafka.errors.KafkaTimeoutError\n"
    )


def test_a_child_process_runs_what_another_thread_was_running() -> None:
    """Of the threads of a parent, a child has the one that forked, and no lock of the others."""
    run(
        "import faulthandler, os, threading\n"
        "from kafka.protocol import api_message\n"
        "import tandem_kafka.wire.messages as messages\n"
        "defined, began, end = messages._defined, threading.Event(), threading.Event()\n"
        "def wait(api):\n"
        "    began.set(); end.wait()\n"
        "    return defined(api)\n"
        "messages._defined = wait\n"
        "other = threading.Thread(target=lambda: messages.ShareFetchRequest)\n"
        "other.start(); began.wait()\n"
        "messages._defined = defined\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    faulthandler.dump_traceback_later(20, exit=True)\n"
        "    assert messages.ShareFetchRequest and messages.PushTelemetryRequest\n"
        "    os._exit(0)\n"
        "end.set(); other.join()\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
    )


def test_a_child_process_does_what_waits_for_a_module_that_another_thread_was_running() -> None:
    """A record of ours is an instance of kafka-python's class when its module has run."""
    run(
        "import faulthandler, os, threading\n"
        "from tandem_kafka.runtime.kafka_python import _actions\n"
        "from tandem_kafka.types import ConsumerRecord\n"
        "import kafka.consumer.fetcher as fetcher\n"
        "parent, began, end = os.getpid(), threading.Event(), threading.Event()\n"
        "def wait(_):\n"
        "    if os.getpid() == parent: began.set(); end.wait()\n"
        "_actions[fetcher.__name__].insert(0, wait)\n"
        "other = threading.Thread(target=lambda: fetcher.ConsumerRecord)\n"
        "other.start(); began.wait()\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    faulthandler.dump_traceback_later(20, exit=True)\n"
        "    os._exit(not issubclass(ConsumerRecord, fetcher.ConsumerRecord))\n"
        "end.set(); other.join()\n"
        "assert issubclass(ConsumerRecord, fetcher.ConsumerRecord)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
    )


class _Interrupted:
    """The loader of a module that an interrupt ends, where CPython runs signal handlers."""

    def __init__(self, at: int) -> None:
        self._interrupter = Interrupter(at, self._interrupt, skip=self._is_elsewhere)
        self.found: list[object] = []

    def exec_module(self, module: Any) -> None:
        module.early = object()
        module.late = object()

    def act(self, module: Any) -> None:
        self.found.append(module.early)

    def _is_elsewhere(self, frame: FrameType) -> bool:
        ours = {kafka_python.__file__, __file__}
        return (
            frame.f_code.co_filename not in ours or frame.f_code is _Interrupted._interrupt.__code__
        )

    def _interrupt(self) -> None:
        frame, place = self._interrupter.frame, self._interrupter.instruction
        assert frame is not None
        before = [each.opname for each in dis.get_instructions(frame.f_code) if each.offset < place]
        if before and before[-1] in {"CALL", "JUMP_BACKWARD", "RESUME"}:
            raise KeyboardInterrupt

    def run(self, module: Any) -> bool:
        """Ask a module for a name; return False if it ran to its end."""
        with suppress(KeyboardInterrupt):
            self._interrupter.call(getattr, module, "late")
        return self._interrupter.frame is not None


def test_an_interrupted_module_runs_when_it_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    lock = type(kafka_python._locks["kafka"])("lazy")
    monkeypatch.setitem(kafka_python._locks, "lazy", lock)
    for at in count():
        loader, module = _Interrupted(at), ModuleType("lazy")
        module.__spec__ = ModuleSpec("lazy", cast("Any", loader))
        module.__class__ = kafka_python._LazyModule
        monkeypatch.setitem(sys.modules, "lazy", module)
        monkeypatch.setattr(kafka_python, "_running", {})
        monkeypatch.setitem(kafka_python._actions, "lazy", [loader.act])
        if not loader.run(module):
            break
        assert lock.owner is None, at
        assert module.early, at
        assert module.late, at
        assert module.early is loader.found[-1], at
        assert type(module) is ModuleType, at
    assert at > 100


#: Statements of threads that begin at once, and seconds after which each goes on. Between them,
#: they hold the locks of imports that the others wait for.
CIRCLES = {
    "one of ours": {
        "from tandem_kafka import TopicPartition": 0,
        "from kafka import errors": 0,
        "import kafka.consumer": 0.07,
    },
    "another order": {
        "from tandem_kafka import ShareConsumer": 0.09,
        "import kafka.consumer": 0.115,
        "import kafka.protocol.old.produce": 0,
    },
    "three of ours": {
        "import tandem_kafka.config": 0,
        "import tandem_kafka.errors": 0.125,
        "from tandem_kafka import TopicPartition": 0,
        "from kafka import errors": 0,
        "from kafka import KafkaProducer": 0.0275,
        "import kafka.consumer": 0.068,
    },
}


@pytest.mark.parametrize("circle", CIRCLES)
def test_imports_that_wait_for_each_other_end(circle: str) -> None:
    """kafka-python's own imports in a circle raise ImportError, then as without this package."""
    run(
        "import sys, threading, time\n"
        "sys.setswitchinterval(1e-6)\n"
        f"delays = {CIRCLES[circle]!r}\n"
        "failed = []\n"
        "start = threading.Barrier(len(delays))\n"
        "def work(statement):\n"
        "    start.wait()\n"
        "    time.sleep(delays[statement])\n"
        "    try: exec(statement)\n"
        "    except BaseException as error:\n"
        "        if 'tandem' in statement or not isinstance(error, ImportError):\n"
        "            failed.append((statement, error))\n"
        "threads = [threading.Thread(target=work, args=(s,), daemon=True) for s in delays]\n"
        "for each in threads: each.start()\n"
        "for each in threads: each.join(10)\n"
        "assert not failed and not any(each.is_alive() for each in threads), failed\n"
    )


def test_a_lookup_of_a_module_imports_nothing() -> None:
    """Python holds the import lock meanwhile, and another thread may need it to end an import."""
    run(
        f"{FIRST}from tandem_kafka.runtime.kafka_python import _LazyFinder\n"
        "path = sys.modules.pop('kafka').__spec__.submodule_search_locations\n"
        "del sys.modules['kafka.consumer']\n"
        "assert _LazyFinder().find_spec('kafka.consumer', path).name == 'kafka.consumer'\n"
        "assert 'kafka' not in sys.modules"
    )


_FOLDER = Path(str(find_spec("kafka").origin)).parent  # type: ignore[union-attr]


@cache
def _imports(module: str) -> frozenset[tuple[str, str]]:
    """Return what a module of kafka-python imports: modules, and names from them."""
    place = _FOLDER.joinpath(*module.split(".")[1:])
    is_package = place.is_dir()
    source = place / "__init__.py" if is_package else place.with_suffix(".py")
    found = set()
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {(alias.name, "") for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = module.split(".")[
                : None if is_package and node.level == 1 else -node.level or None
            ]
            near = [*above, *filter(None, [node.module])]
            origin = ".".join(near) if node.level else str(node.module)
            found |= {(origin, alias.name) for alias in node.names}
    return frozenset(each for each in found if each[0].partition(".")[0] == "kafka")


def _is_module(name: str) -> bool:
    place = _FOLDER.joinpath(*name.split(".")[1:])
    return place.with_suffix(".py").exists() or (place / "__init__.py").exists()


def _run_with(module: str) -> set[str]:
    """Return the modules that may run while a module runs, itself not included."""
    seen: set[str] = set()
    todo = [module]
    while todo:
        for origin, name in _imports(todo.pop()):
            for each in {origin, f"{origin}.{name}"} - seen:
                if _is_module(each):
                    seen.add(each)
                    todo.append(each)
    return seen


@pytest.mark.parametrize("lazy", LAZY)
def test_nothing_that_runs_with_a_lazy_module_waits_for_it(lazy: str) -> None:
    """Two threads that run them, beginning at either, would wait for each other."""
    askers = {
        (each, name)
        for each in _run_with(lazy) - {lazy, "kafka"}
        for origin, name in _imports(each)
        if origin == lazy and name and not _is_module(f"{lazy}.{name}")
    }
    assert askers == set()
