"""The options of the command `tandem-kafka`."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Final

import click

from tandem_kafka_cli.program import COMMANDS

__all__ = ["sections"]

#: `serve` has another section, because two commands take its options.
_ELSEWHERE: Final = {"serve"}


def sections() -> str:
    """Return a section for each command."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    commands = [*_commands()]
    shared = [
        parameter
        for parameter in commands[0][1].params
        if all(parameter.opts in [each.opts for each in found.params] for _, found in commands)
    ]
    yield "### Connection\n\nThese options are the same in all commands of this section:\n"
    yield from _table(shared)
    names = {tuple(parameter.opts) for parameter in shared}
    for title, command in commands:
        arguments = [each for each in command.params if isinstance(each, click.Argument)]
        usage = " ".join([f"tandem-kafka {title}", *map(_argument, arguments)])
        yield f"\n### {title}\n\n`{usage}`: {_first_sentence(command)}\n"
        yield from _table([each for each in command.params if tuple(each.opts) not in names])


def _commands() -> Iterator[tuple[str, click.Command]]:
    for name, known in COMMANDS.items():
        command = import_module(known.module).command
        if isinstance(command, click.Group):
            yield from ((f"{name} {each}", found) for each, found in command.commands.items())
        elif name not in _ELSEWHERE and any(isinstance(x, click.Option) for x in command.params):
            yield name, command


def _argument(argument: click.Argument) -> str:
    name = (argument.name or "").upper()
    return name if argument.required else f"[{name}]"


def _first_sentence(command: click.Command) -> str:
    paragraph = (command.help or "").split("\n\n")[0].replace("\n", " ")
    return paragraph[0].lower() + paragraph[1:]


def _table(parameters: list[click.Parameter]) -> Iterator[str]:
    options = [each for each in parameters if isinstance(each, click.Option)]
    if options:
        yield "| option | meaning |\n|---|---|"
        yield from (f"| {_names(option)} | {_meaning(option)} |" for option in options)


def _names(option: click.Option) -> str:
    value = "" if option.is_flag or option.count else f" {_value(option)}"
    *short, last = option.opts
    return ", ".join([*(f"`{name}`" for name in short), f"`{last}{value}`"])


def _value(option: click.Option) -> str:
    if option.metavar:
        return option.metavar
    return "WORD" if isinstance(option.type, click.Choice) else "N"


def _meaning(option: click.Option) -> str:
    text = (option.help or "").replace("|", "\\|")
    if isinstance(option.type, click.Choice):
        text += f" {', '.join(f'`{choice}`' for choice in option.type.choices)}."
    if option.show_default and option.default:
        text += f" Default: {option.default}."
    return f"{text} Required." if option.required else text
