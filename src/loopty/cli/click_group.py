"""All verbs as one command of click; each is imported when it is called."""

from __future__ import annotations

from collections.abc import Iterable

import click

from loopty.cli.verbs import EVERY_DAY, FOR_PROGRAMS, GROUPS, OLD_NAMES, Group, verb_place
from loopty.kit.by_name import by_name
from loopty.version import __version__

_SETTINGS = {"help_option_names": ["-h", "--help"]}


class _Lazy(click.Group):
    """Imports each verb when it is called, so that a verb starts as fast as it can."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            raise click.UsageError(f"there is no verb '{args[0]}': {self._hint(ctx, args[0])}", ctx) from error

    def _hint(self, ctx: click.Context, word: str) -> str:
        import difflib

        names = {name: name for name in self.list_commands(ctx)}
        if not ctx.parent:  # a group's verb is often typed without its group
            names |= {verb: f"{name} {verb}" for name, group in GROUPS.items() for verb in group.verbs} | OLD_NAMES
        close = difflib.get_close_matches(word, names, n=1)
        path = ctx.command_path
        return f"did you mean `{path} {names[close[0]]}`?" if close else f"`{path} --help` lists the verbs"


class Verbs(_Lazy):
    """What people type every day, and groups of all else."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return [*EVERY_DAY, *GROUPS, *FOR_PROGRAMS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name == "help":
            return _help
        if group := GROUPS.get(cmd_name):
            return GroupVerbs(cmd_name, group)
        name = OLD_NAMES.get(cmd_name, cmd_name)
        if name == cmd_name and name not in {**EVERY_DAY, **FOR_PROGRAMS}:
            return None
        command: click.Command = by_name(verb_place(name))
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        width = max(map(len, (*EVERY_DAY, *GROUPS)))
        with formatter.section("Every day"):
            formatter.write_dl([(f"{name:{width}}", verb.help) for name, verb in EVERY_DAY.items()])
        with formatter.section("Groups (`loopty GROUP` lists their verbs)"):
            formatter.write_dl(
                [(f"{name:{width}}", f"{group.help}: {', '.join(group.verbs)}.") for name, group in GROUPS.items()]
            )


@click.pass_context
def _show_help(context: click.Context) -> None:
    """Print the help where no verb is called."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


class GroupVerbs(_Lazy):
    """The verbs of one group."""

    def __init__(self, name: str, group: Group) -> None:
        text = f"{group.help}.\n\n{group.more}"
        super().__init__(
            name, help=text, callback=_show_help, invoke_without_command=True, context_settings=_SETTINGS
        )
        self._group = group

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if (verb := error.option_name.lstrip("-")) not in self._group.verbs:
                raise
            text = f"{verb} is a verb, no option: `{ctx.command_path} {verb}`"
            raise click.UsageError(text, ctx) from error

    def _hint(self, ctx: click.Context, word: str) -> str:
        hint = super()._hint(ctx, word)
        if self._group.usual and not hint.startswith("did you mean"):
            return f"did you mean `{ctx.command_path} {self._group.usual} {word}`?"
        return hint

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(self._group.verbs)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in self._group.verbs:
            return None
        command: click.Command = by_name(verb_place(f"{self.name} {cmd_name}"))
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Verbs"):
            formatter.write_dl([(name, verb.help) for name, verb in self._group.verbs.items()])


@click.command(cls=Verbs, invoke_without_command=True, context_settings=_SETTINGS)
@click.version_option(__version__, "--version", "-V", prog_name="loopty")
def loopty() -> None:
    """Autonomous experimentation loops for code.

    Point it at a repository and a benchmark. It proposes changes, runs them in a sandbox, scores them, keeps the
    better ones, and records everything.

    NODE is a name such as @431, or `best`: the best node of the newest run. A path in the tree such as 1.3 names a
    node as well. A number alone is a path where a run has that number (2 is the baseline of run 2), else a name
    (431 is @431). Most verbs take --json.
    """
    _show_help()


@click.command("help")
@click.argument("verb", nargs=-1)
@click.pass_context
def _help(context: click.Context, verb: Iterable[str]) -> None:
    """Show what a verb does."""
    assert context.parent
    command, at = context.parent.command, context.parent
    for word in verb:
        if not isinstance(command, click.Group):
            break
        name, found, _ = command.resolve_command(at, [word])
        assert found
        command, at = found, click.Context(found, at, name)
    click.echo(command.get_help(at))
