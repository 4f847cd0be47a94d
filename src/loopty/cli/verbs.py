"""The verbs: finds the one that is called, imports only that, and turns misuse into one line and exit code 2."""

from __future__ import annotations

import errno
import importlib
import sys
from keyword import iskeyword
from typing import NoReturn

import click

from loopty.domain.errors import LooptyError
from loopty.version import __version__

# Verb → what it does, in the order of `loopty --help`. Each verb is the module of its name in this folder.
VERBS = {
    "init": "Write loopty.toml, and run the benchmark once to check it.",
    "optimize": "Run experiments until the budget is spent; run it again to resume.",
    "worker": "Run trials of a campaign that another machine drives.",
    "dashboard": "Show the experiments in your browser, live, and act on them.",
    "status": "Show where the run stands.",
    "context": "Say what to know before the next experiment, in few words.",
    "tree": "Show the tree of experiments.",
    "report": "Chart the scores and list the best nodes.",
    "spend": "Show what models cost, by role, model, operator and node.",
    "best": "Print the best node.",
    "show": "Show everything about a node.",
    "diff": "Show what a node changed.",
    "new": "Make a node by hand: a folder with its files to edit.",
    "try": "Run any command on a node's files, in the sandbox, unrecorded.",
    "drop": "Give up a draft.",
    "run": "Run a node made by hand; --check only tries the benchmark.",
    "accept": "Keep a node that was held because its gain is too good.",
    "replay": "Measure a node or an artifact again and compare.",
    "audit": "Score nodes on the held-out split that the search never sees.",
    "ab": "Compare task files as arms, on the same budget.",
    "direct": "Tell the models what to try and what to avoid.",
    "pause": "Let nothing new start in the run; what runs goes on.",
    "resume": "End the pause.",
    "stop": "End the session that drives the run, wherever it runs.",
    "budget": "Show or change what the run may spend.",
    "gate": "Add, list and check conditions that a node must meet.",
    "discard": "Take back that a node was kept.",
    "invalidate": "Reject a node that cheats, with its descendants.",
    "restore": "Take a discard or an invalidation back.",
    "remeasure": "Judge nodes again that lost only against a withdrawn one.",
    "rebaseline": "Measure baseline and best node here, to continue a run.",
    "export": "Pack a node for any machine, or write all trials as a table.",
    "trust": "Allow what a task file asks for beyond the default.",
    "gc": "Remove the files of discarded nodes.",
    "branch": "Make a git branch of a node, as it was measured.",
    "apply": "Bring a node's change to your own branch.",
    "pr": "Prepare a pull request: a branch, and what to say about it.",
    "models": "List the models, try one, or fetch one that needs no key.",
    "merge": "Make a draft with the changes of two nodes.",
    "abort": "End a ticket, or give up what a node waits for.",
    "tool": "Call a tool of coding agents from a shell.",
    "mcp": "Serve the tools to a coding agent, by MCP on standard input.",
    "serve": "Start a process that makes verbs here cheaper; --stop ends it.",
    "notify": "Show where notices of a run go, and try whether they arrive.",
    "mode": "Show or set how a coding agent works here.",
    "hook": "Answer a hook of a coding agent's host.",
    "install": "Let coding agents in a host drive loopty: tools and skills.",
    "uninstall": "Remove from a host what install added.",
    "doctor": "Check what works on this machine, and how to fix the rest.",
}
_FOR_PROGRAMS = ("hook",)
"""Verbs that people do not call."""


_NAMED_ELSEWHERE = ("budget", "context", "dashboard")
"""Verbs that have the name of a module of another room: no two modules share one."""


def verb_module(verb: str) -> str:
    """The module of a verb. An underscore follows a word of Python's own, and a name that another module has."""
    return f"loopty.cli.{verb}{'_' if iskeyword(verb) or verb in _NAMED_ELSEWHERE else ''}"


class Verbs(click.Group):
    """Imports each verb when it is called, so that a verb starts as fast as it can."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in VERBS:
            return None
        command: click.Command = importlib.import_module(verb_module(cmd_name)).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Verbs"):
            formatter.write_dl([row for row in VERBS.items() if row[0] not in _FOR_PROGRAMS])

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

    Point it at a repository and a benchmark. It proposes changes, runs them in a sandbox, scores them, keeps the
    better ones, and records everything.

    NODE is an id such as 1.3, a short name such as @431 (shown as #431), or `best`: the best node of the newest
    run. Every verb except try takes --json.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def run_verb() -> None:
    """Run the verb that the command line names."""
    from loopty.report.safe_stream import SafeStream

    sys.stdout, sys.stderr = SafeStream.over(sys.stdout), SafeStream.over(sys.stderr)
    try:
        loopty(standalone_mode=False)
    except LooptyError as error:
        _exit_if_outage(error)
        from loopty.report.node_name import shorten_ids

        _exit_for_misuse(shorten_ids(str(error)))
    except click.ClickException as error:
        _exit_for_misuse(error.format_message())
    except OSError as error:
        if (message := _explanation(error)) is None:
            raise
        _exit_for_misuse(message)
    except (click.Abort, KeyboardInterrupt):
        sys.stderr.write("\nloopty: interrupted\n")
        sys.exit(130)


def _explanation(error: OSError) -> str | None:
    """What a user can do about an error of the file system, or None."""
    from loopty.kit.safe_folder import UnsafePath

    if isinstance(error, UnsafePath):
        return f"{error}; loopty keeps its own files there and follows no links"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"the disk is full ({error}): free some space or some files; recorded events are safe"
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return f"cannot write to {error.filename} ({error.strerror}): make it writable; recorded events are safe"
    return None


def _exit_if_outage(error: LooptyError) -> None:
    """Where a model is unavailable: say so and how to go on, and exit with 1, as for any run without a result."""
    from loopty.domain.model import Outage

    if isinstance(error, Outage):
        from shlex import join

        from loopty.cli.output import print_json, say

        if "--json" in sys.argv:
            print_json({"reason": error.message, "sound": False})
        say(f"loopty: {error.message}\ntry again: loopty {join(sys.argv[1:])}")
        sys.exit(1)


def _exit_for_misuse(message: str) -> NoReturn:
    for line in message.splitlines():
        sys.stderr.write(f"loopty: {line}\n")
    sys.exit(2)
