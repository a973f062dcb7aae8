"""Every exception is one line and an exit code; the program without its extra; its start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

from packages.cli.tests.commands import Run
from tandem_kafka import __version__, native_available
from tandem_kafka.errors import (
    InvalidArgumentError,
    KafkaConfigurationError,
    KafkaError,
    KafkaTimeoutError,
    SaslAuthenticationFailedError,
    TopicAuthorizationFailedError,
)
from tandem_kafka_cli import failures
from tandem_kafka_cli.program import COMMANDS

COMMAND = [sys.executable, "-m", "tandem_kafka_cli"]


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (failures.CommandError("no"), 1, "no"),
        (failures.CommandError("no", usage=True), 2, "no"),
        (KafkaConfigurationError("x=1: wrong"), 2, "x=1: wrong"),
        (InvalidArgumentError("wrong"), 2, "wrong"),
        (
            KafkaTimeoutError("no broker\n responded"),
            1,
            "no broker responded; `tandem-kafka doctor`",
        ),
        (
            SaslAuthenticationFailedError("rejected"),
            1,
            "SaslAuthenticationFailedError: rejected; check the user name",
        ),
        (
            TopicAuthorizationFailedError("orders"),
            1,
            "TopicAuthorizationFailedError: orders; this user",
        ),
        (
            SaslAuthenticationFailedError("rejected; check sasl_plain_username='me'"),
            1,
            "SaslAuthenticationFailedError: rejected; check sasl_plain_username='me'\n",
        ),
        (KafkaError("other"), 1, "other"),
        (FileNotFoundError(2, "No such file", "a.txt"), 1, "a.txt: No such file"),
        (click.UsageError("wrong"), 2, "wrong (`tandem-kafka --help` shows the flags)"),
        (KafkaError("client \x1b[2J"), 1, r"client \x1b[2J"),
        (ZeroDivisionError("division"), 1, "ZeroDivisionError: division; this is a defect in"),
    ],
)
def test_a_line_and_a_code(
    error: Exception, code: int, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert failures.report(error) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"tandem-kafka: {text}")
    assert len(printed.err.splitlines()) == 1


def test_an_interrupt_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert failures.report(KeyboardInterrupt()) == 130
    assert failures.report(click.Abort()) == 130
    assert capsys.readouterr().err == ""


def test_verbose_shows_the_stack(run: Run) -> None:
    def broken(**_: object) -> object:
        raise ZeroDivisionError("division")

    assert "Traceback" not in run("tail", "-t", "orders", consumer=broken).err
    assert "Traceback" in run("tail", "-t", "orders", "--verbose", consumer=broken).err


def test_a_stack_has_no_effect_on_a_terminal(run: Run) -> None:
    def broken(**_: object) -> object:
        raise ZeroDivisionError("a\x1b[2J\u202e")

    printed = run("tail", "-t", "orders", "--verbose", consumer=broken).err
    assert r"ZeroDivisionError: a\x1b[2J\u202e" in printed
    assert "\x1b" not in printed


def test_a_timeout_names_the_broker() -> None:
    arguments = ["tail", "-t", "x", "-b", "127.0.0.1:1", "-X", "bootstrap.timeout.ms=200"]
    ran = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert len(ran.stderr.splitlines()) == 1
    assert "127.0.0.1:1" in ran.stderr
    assert "Connection refused" in ran.stderr


def test_help_names_every_command_and_imports_no_client() -> None:
    code = (
        "import sys; from tandem_kafka_cli.__main__ import main; main(['--help']);"
        "print(sorted({'kafka', 'rich', 'duckdb', 'pyarrow', 'ssl'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "[]"
    assert all(f"\n  {name} " in ran.stdout for name in COMMANDS)


@pytest.mark.parametrize("name", ["", *COMMANDS, "offsets show", "offsets reset"])
def test_the_help_of_a_command_fits_80_columns(run: Run, name: str) -> None:
    ran = run(*name.split(), "--help")
    assert ran.code == 0
    assert f"tandem-kafka {name}".rstrip() in ran.out
    assert all(len(line) <= 80 for line in ran.out.splitlines())


@pytest.mark.parametrize("name", ["", "offsets"])
def test_a_command_without_arguments_is_helped(run: Run, name: str) -> None:
    ran = run(*name.split())
    assert (ran.code, ran.err) == (2, "")
    assert ran.out == run(*name.split(), "--help").out
    assert "..." not in ran.out.partition("Commands:")[2]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("tail orders", "tail needs -t TOPIC (`tandem-kafka tail --help` shows"),
        (
            "-b localhost tail",
            "no flag -b here: write it after the command, `tandem-kafka COMMAND -b ...`",
        ),
        (
            "offsets -g billing show",
            "no flag -g here: write it after the command, `tandem-kafka offsets COMMAND -g ...`",
        ),
        ("lga", "No such command 'lga'. Did you mean 'lag'? (`tandem-kafka --help` shows"),
        ("zzz", "No such command 'zzz'. (`tandem-kafka --help` shows"),
        ("tail -t orders --lnies 3", "No such option '--lnies'. Did you mean '--lines'?"),
    ],
)
def test_a_slip_is_told_with_what_to_write(run: Run, given: str, text: str) -> None:
    ran = run(*given.split())
    assert ran.code == 2
    assert ran.err.startswith(f"tandem-kafka: {text}")


def test_the_version_says_which_implementation_runs(run: Run) -> None:
    ran = run("--version")
    kind = "native" if native_available else "Python implementation, several times slower"
    assert (ran.code, ran.out) == (0, f"tandem-kafka {__version__} ({kind})\n")


def test_help_names_the_tools_for_what_is_left_out(run: Run) -> None:
    text = run("--help").out
    assert all(tool in text for tool in ("kcat", "kafka-topics.sh", "kafka-acls.sh"))


@pytest.mark.parametrize("command", ["serve", "demo"])
def test_a_command_on_the_simulated_cluster_says_what_to_install(command: str) -> None:
    code = (
        "import sys, importlib.util as u; found = u.find_spec\n"
        "u.find_spec = lambda n, *rest: None if n == 'tandem_kafka_testing' else found(n, *rest)\n"
        "from tandem_kafka_cli.__main__ import main; sys.exit(main(sys.argv[1:]))"
    )
    given = [sys.executable, "-c", code, command, "--brokers", "3"]
    ran = subprocess.run(given, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (1, "")
    install = "pip install 'tandem-kafka[demo]'"
    assert ran.stderr == f"tandem-kafka: {command} needs a simulated cluster: {install}\n"


def test_a_closed_pipe_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    code = (
        "import sys; from tandem_kafka_cli import program, __main__ as entry\n"
        "@program.program.command('x')\n"
        "def x(): print('x' * 1_000_000)\n"
        "program.COMMANDS['x'] = None\n"
        "program._Commands.get_command = lambda *_: x\n"
        "sys.exit(entry.main(['x']))"
    )
    with os.fdopen(writing, "wb") as stdout:
        ran = subprocess.run(
            [sys.executable, "-c", code], stdout=stdout, stderr=subprocess.PIPE, check=False
        )
    assert (ran.returncode, ran.stderr) == (141, b"")


def test_sigterm_ends_a_command_as_ctrl_c_does(run: Run) -> None:
    def terminated(**_: object) -> object:
        os.kill(os.getpid(), signal.SIGTERM)
        raise AssertionError("the signal did nothing")

    assert run("tail", "-t", "orders", consumer=terminated).code == 130


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_of_commands_and_clusters(run: Run, shell: str, tmp_path: Path) -> None:
    assert "_TANDEM_KAFKA_COMPLETE" in run("completion", shell).out
    (tmp_path / "tandem-kafka.toml").write_text("[clusters.prod]\n[clusters.test]\n")
    for words, expected in (("tandem-kafka gr", "grep"), ("tandem-kafka tail --cluster p", "prod")):
        environment = {
            **os.environ,
            "XDG_CONFIG_HOME": str(tmp_path),
            "_TANDEM_KAFKA_COMPLETE": f"{shell}_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": words.split()[-1] if shell == "fish" else str(len(words.split()) - 1),
        }
        ran = subprocess.run(COMMAND, env=environment, capture_output=True, text=True, check=True)
        assert expected in ran.stdout
        assert "partitions" not in ran.stdout
