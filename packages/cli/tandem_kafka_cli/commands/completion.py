"""`tandem-kafka completion`: a script that completes commands and flags in a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from tandem_kafka_cli.failures import CommandError


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script of a shell.

    bash and zsh: eval "$(tandem-kafka completion bash)" in ~/.bashrc, or zsh in ~/.zshrc.
    fish: tandem-kafka completion fish > ~/.config/fish/completions/tandem-kafka.fish
    """
    from tandem_kafka_cli.program import COMPLETE, NAME, program

    found = get_completion_class(shell)
    if found is None:
        raise CommandError(f"click has no completion for {shell}; upgrade click")
    click.echo(found(program, {}, NAME, COMPLETE).source())
