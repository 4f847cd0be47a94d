"""All verbs as one command of click; each is imported when it is called."""

from __future__ import annotations

import click

from loopty.cli.verbs import FOR_PROGRAMS, GROUPS, VERBS, verb_place
from loopty.kit.by_name import by_name
from loopty.version import __version__


class Verbs(click.Group):
    """Imports each verb when it is called, so that a verb starts as fast as it can."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in VERBS:
            return None
        command: click.Command = by_name(verb_place(cmd_name))
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        width = max(map(len, VERBS))
        for title, group in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl(
                    [(f"{verb:{width}}", words) for verb, words in group.items() if verb not in FOR_PROGRAMS]
                )

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

    NODE is a name such as @431, or `best`: the best node of the newest run. A path in the tree such as 1.3 names a
    node as well. A number alone is a path where a run has that number (2 is the baseline of run 2), else a name
    (431 is @431). Most verbs take --json.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
