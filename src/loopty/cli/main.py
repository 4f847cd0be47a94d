"""The `loopty` command: finds the verb, imports only that, and turns misuse into one line and exit code 2."""

from __future__ import annotations

import errno
import importlib
import sys

import click

from loopty import __version__
from loopty.domain.errors import LooptyError

# Verb → what it does, in the order of `loopty --help`. Each lives in the module of its name.
VERBS = {
    "init": "Write loopty.toml and prove the wiring with one checked run.",
    "optimize": "Run experiments until the budget is spent; run it again to resume.",
    "status": "Say where the run stands.",
    "tree": "Show the tree of experiments.",
    "report": "Chart score over experiments, with the best of them.",
    "spend": "Show what models cost, by role, model, operator and node.",
    "best": "Name the best node.",
    "show": "Show everything about a node.",
    "diff": "Show what a node changed.",
    "new": "Make a node by hand: an editable workspace.",
    "run": "Run a node made by hand; --check only proves the wiring.",
    "replay": "Measure a node or an artifact again from nothing.",
    "audit": "Score nodes on the held-out split that the search never sees.",
    "direct": "Tell the models of the run what to try or to leave alone.",
    "gate": "Add, list and check conditions that a node must meet.",
    "rebaseline": "Measure the incumbent on this machine, and go on here.",
    "export": "Write a node down as an artifact that replays on any machine.",
    "apply": "Bring a node's change to your own branch.",
    "models": "List the models that can be asked, try one, fetch one that needs no key.",
    "doctor": "Check what this machine can do, and say how to mend what it cannot.",
}


class Verbs(click.Group):
    """Commands that are imported when they are called: a verb starts as fast as it can."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in VERBS:
            return None
        module = importlib.import_module(f"loopty.cli.{cmd_name}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            import difflib

            close = difflib.get_close_matches(args[0], VERBS, n=1)
            hint = f"did you mean `loopty {close[0]}`?" if close else "`loopty --help` lists the verbs"
            raise click.UsageError(f"there is no verb '{args[0]}': {hint}", ctx) from error


@click.command(cls=Verbs, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="loopty")
@click.pass_context
def loopty(context: click.Context) -> None:
    """Autonomous experimentation loops for code.

    Point it at a repository and a benchmark; it proposes changes, runs them in a sandbox, scores them, keeps
    what is better, and remembers everything. Verbs that read take --json.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def main() -> None:
    try:
        loopty(standalone_mode=False)
    except LooptyError as error:
        _stalled(error)
        fail(str(error))
    except click.ClickException as error:
        fail(error.format_message())
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        fail(f"the disk is full ({error}): free some space, or some files; what is recorded is safe")
    except (click.Abort, KeyboardInterrupt):
        sys.stderr.write("\nloopty: interrupted\n")
        sys.exit(130)


def _stalled(error: LooptyError) -> None:
    """Where a model is out: say so and how to go on, and leave with the code for what gave no result."""
    from loopty.domain.model import Outage

    if isinstance(error, Outage):
        from shlex import join

        from loopty.cli.output import print_json, say

        if "--json" in sys.argv:
            print_json({"reason": error.message, "sound": False})
        say(f"loopty: {error.message}\nagain: loopty {join(sys.argv[1:])}")
        sys.exit(1)


def fail(message: str) -> None:
    """Say what is wrong, a line each, and leave with the code for misuse."""
    for line in message.splitlines():
        sys.stderr.write(f"loopty: {line}\n")
    sys.exit(2)


if __name__ == "__main__":
    main()
