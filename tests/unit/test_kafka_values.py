"""kafka-python's errors and structs without kafka-python: no program sees the difference."""

from __future__ import annotations

import subprocess
import sys

import pytest

OURS = "import tandem_kafka.errors as ours, tandem_kafka.types as types"
FIRST = (
    f"{OURS}\nimport sys\n"
    "assert 'kafka' not in sys.modules and 'kafka.errors' in sys.modules, sys.modules.keys()\n"
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
        "seen = []\n"
        "class Hook:\n"
        "    def find_spec(self, name, path=None, target=None): seen.append(name)\n"
        "sys.meta_path.insert(0, Hook()); import kafka\n"
        "assert seen[:2] == ['kafka', 'kafka.version']"
    ),
    "the loader": (
        "import kafka, importlib.resources as r; assert kafka.__spec__.loader is kafka.__loader__\n"
        "assert (r.files('kafka.protocol.schemas') / 'resources').is_dir()\n"
        "assert kafka.errors.__spec__.parent == 'kafka' and kafka.errors.__file__"
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_kafka_python_is_imported_after_ours(name: str) -> None:
    run(FIRST + PROGRAMS[name])


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "an import hook"])
def test_kafka_python_is_imported_before_ours(name: str) -> None:
    run(f"import kafka, sys\n{OURS}\n{PROGRAMS[name]}")


def test_the_package_has_the_same_names_in_either_order() -> None:
    names = (
        "import kafka; print(sorted(kafka.__dict__), type(kafka), sorted(kafka.errors.__dict__))"
    )
    assert run(f"{FIRST}{names}") == run(names)


@pytest.mark.parametrize("seed", range(5))
def test_two_threads_import_at_once(seed: int) -> None:
    """One imports ours and the other kafka-python; a thread switches after each microsecond."""
    run(
        "import sys, threading, time\n"
        "sys.setswitchinterval(1e-6)\n"
        "failed = []\n"
        "statements = [\n"
        "    'import tandem_kafka.errors',\n"
        "    'from kafka.errors import KafkaTimeoutError',\n"
        "    'import kafka.errors; kafka.errors.KafkaError',\n"
        "    'import tandem_kafka.types',\n"
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


def test_a_python_without_the_private_function_imports_all_of_kafka_python() -> None:
    run(
        "import importlib._bootstrap as b; del b._load\n"
        f"{OURS}\nimport sys; assert 'kafka' in sys.modules\n"
        "import kafka; assert kafka.errors.KafkaError is ours.KafkaError"
    )
