"""Turns every exception into one line that says what to do, and into an exit code."""

from __future__ import annotations

import os
import re
import sys
import traceback
from typing import Final

import click

from tandem_kafka.foreign_text import SentSecrets

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
#: As shells report SIGINT and SIGPIPE.
INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141

#: What a schema registry is sent.
SENT_SECRETS: Final = SentSecrets()
#: What the texts of wrong usage may have.
_LAYOUT: Final = "\n\t"
_CODE: Final = re.compile(r"^\[Error -?\d+\] ")
_DOCTOR: Final = "`tandem-kafka doctor` with the same flags finds the step that fails"
#: What a cluster without share groups lacks.
SHARE_GROUPS: Final = (
    "they need Kafka 4.2, and the feature share.version=1 (kafka-features.sh "
    "--bootstrap-server ... upgrade --feature share.version=1)"
)
#: Advice for classes that do not say what to do. By their names, as an import of exceptions of
#: Kafka would delay `--help` and completion.
_ADVICE: Final = {
    "KafkaTimeoutError": _DOCTOR,
    "KafkaConnectionError": _DOCTOR,
    "NodeNotReadyError": _DOCTOR,
    "SaslAuthenticationFailedError": "check the user name, the password and sasl.mechanism",
    "UnsupportedSaslMechanismError": "choose a mechanism of the broker with -X sasl.mechanism=...",
    "TlsAuthenticationError": "check ssl.ca.location and the host names in the certificate",
    "AuthenticationError": "check the security settings",
    "TopicAuthorizationFailedError": "this user needs the ACLs READ and DESCRIBE on the topic",
    "GroupAuthorizationFailedError": "this user needs the ACLs READ and DESCRIBE on the group",
    "ClusterAuthorizationFailedError": "this user needs the ACL DESCRIBE on the cluster",
    "CoordinatorNotAvailableError": "try again: a new cluster makes its first coordinators now",
    "NoShareGroupsError": SHARE_GROUPS,
    "UnsupportedVersionError": "this broker is too old for the command",
    "IncompatibleBrokerVersion": "this broker is too old for the command",
}
#: What the text of an error has that says what to do.
_ADVISED: Final = ("; check ", "; grant it: ", "; set ")


class CommandError(Exception):
    """A command cannot continue; the text is the line for the user, and says what to do.

    Attributes:
        usage: Whether the command line or the configuration is wrong.
    """

    def __init__(self, text: str, *, usage: bool = False) -> None:
        super().__init__(text)
        self.usage = usage


def exit_code(error: BaseException, failed: int = FAILED) -> int:
    """Return the exit code for an exception; `failed` is the code for a failure."""
    if isinstance(error, CommandError):
        return USAGE if error.usage else failed
    if isinstance(error, (KeyboardInterrupt, click.Abort)):
        return INTERRUPTED
    if isinstance(error, BrokenPipeError):
        return BROKEN_PIPE
    if isinstance(error, click.ClickException):
        return USAGE
    names = _class_names(error)
    return USAGE if names & {"KafkaConfigurationError", "InvalidArgumentError"} else failed


def report(error: BaseException, *, failed: int = FAILED, verbose: bool = False) -> int:
    """Print the line for an exception to stderr; returns the exit code."""
    code = exit_code(error, failed)
    if type(error).__name__ == "NoArgsIsHelpError":  # of click 8.2; earlier ones print it
        print(str(error))
        return code
    if code == BROKEN_PIPE:
        # Otherwise the interpreter would report the broken pipe again when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return code
    if verbose:
        trace = "".join(traceback.format_exception(error))
        print(SENT_SECRETS.line(trace, keep=_LAYOUT), end="", file=sys.stderr)
    if code != INTERRUPTED:
        line = SENT_SECRETS.line(_line(error), keep=_LAYOUT)
        print(f"tandem-kafka: {line}", file=sys.stderr)
    return code


def _line(error: BaseException) -> str:
    if isinstance(error, click.UsageError):
        command = error.ctx.command_path if error.ctx else "tandem-kafka"
        shows = f"(`{command} --help` shows the flags)"
        if isinstance(error, click.MissingParameter) and error.param and error.param.metavar:
            flag, value = error.param.opts[0], error.param.metavar
            return f"{command.partition(' ')[2]} needs {flag} {value} {shows}"
        if isinstance(error, click.NoSuchOption) and _of_group(error):
            flag = error.option_name
            return (
                f"no flag {flag} here: write it after the command, `{command} COMMAND {flag} ...`"
            )
        return f"{error.format_message()} {shows}"
    if isinstance(error, click.ClickException):
        return error.format_message()
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    # The text of kafka-python's classes begins with their name, or with the code of a broker's
    # error and the name. For the latter, the name is the diagnosis.
    name = type(error).__name__
    text = _CODE.sub("", " ".join(str(error).split())).removeprefix(f"{name}: ") or name
    if getattr(error, "errno", None) and not isinstance(error, OSError) and name not in text:
        text = f"{name}: {text}"
    return _with_advice(error, text)


def _of_group(error: click.UsageError) -> bool:
    """Whether the command line has not come to a command."""
    return error.ctx is not None and isinstance(error.ctx.command, click.Group)


def _with_advice(error: BaseException, text: str) -> str:
    if isinstance(error, (CommandError, OSError, UnicodeError)):
        return text
    names = _mro(error)
    if "KafkaError" in names:
        advice = next((_ADVICE[name] for name in names if name in _ADVICE), None)
        said = advice != _DOCTOR and any(each in text for each in _ADVISED)
        return f"{text}; {advice}" if advice and advice not in text and not said else text
    return (
        f"{names[0]}: {text}; this is a defect in tandem-kafka: repeat the command with --verbose "
        "and report what it prints"
    )


def _mro(error: BaseException) -> list[str]:
    return [each.__name__ for each in type(error).__mro__]


def _class_names(error: BaseException) -> set[str]:
    """Return the names of the exception's classes.

    Names, because importing the errors of Kafka takes longer than `--help` may.
    """
    return set(_mro(error))
