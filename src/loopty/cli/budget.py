"""`loopty config budget`, `spend`, `direct`, `models`: what a run may spend, what models cost, know and are."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from loopty.cli.output import NodeArgument, columns, echo, here, json_option, print_json, run_option, say, terminal
from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.model import ModelFault
from loopty.kit.records import as_dict
from loopty.show.figures import dollars, duration, plural
from loopty.show.terminal import cut, printable_line
from loopty.taskfile.model_tables import user_config_file


@click.command("budget")
@click.argument("changes", nargs=-1, metavar="[NAME=LIMIT]...")
@run_option
@json_option
def budget_verb(changes: tuple[str, ...], run: int | None, as_json: bool) -> None:
    """Show the limits of a run, or change them, also while `loopty run` runs: `loopty config budget attempts=500`.

    NAME is attempts, control, repeats, tunes, tokens, wall_seconds or money_usd; LIMIT is a number, or `none`. A
    changed limit holds for this run instead of the one in loopty.toml.
    """
    campaign = here()
    number = campaign.newest_run(run)
    limits = campaign.budget(dict(map(_parse, changes)), number)
    if as_json:
        print_json({"run": number, "limits": dict(limits)})
        return
    for name, limit in limits.items():
        echo(f"{name:<13} {'no limit' if limit is None else f'{limit:,.10g}'}")


def _parse(change: str) -> tuple[str, float | None]:
    name, equals, text = change.partition("=")
    try:
        limit = None if text.strip().lower() == "none" else float(text)
    except ValueError:
        limit, equals = None, ""
    if not equals:
        raise Misuse(f"{change!r} is no change of a limit: write NAME=NUMBER or NAME=none")
    return name.strip(), limit


@click.command("spend")
@click.option(
    "--by",
    type=click.Choice(["role", "model", "operator", "node"]),
    help="Show only this table.",
)
@run_option
@json_option
def spend_verb(by: str | None, run: int | None, as_json: bool) -> None:
    """Show what models cost: tokens and money by role, model, operator and node, and calls without a result.

    Nodes from one reply share its cost. Where a price is unknown, only tokens are counted.
    """
    campaign = here()
    found = campaign.spend(run)
    if as_json:
        print_json(as_dict(found))
        return
    from loopty.show.spend import spend_text

    echo(spend_text(found, by, columns(), terminal(), campaign.history.name))


@click.command("direct")
@click.argument("text", required=False)
@click.option(
    "--build-on",
    type=NodeArgument(),
    multiple=True,
    metavar="NODE",
    help="Start changes from the best node at or below NODE; repeatable.",
)
@click.option(
    "--not-below",
    type=NodeArgument(),
    multiple=True,
    metavar="NODE",
    help="Start no change from NODE, nor from what is below it; repeatable.",
)
@click.option("--clear", is_flag=True, help="Remove the directive, with its nodes.")
@json_option
def direct_verb(
    text: str | None, build_on: tuple[NodeId, ...], not_below: tuple[NodeId, ...], clear: bool, as_json: bool
) -> None:
    """Tell the models what to try and what to avoid, from their next proposal on.

    TEXT replaces the current text, --build-on and --not-below the nodes named before; without any of them, the
    current directive is shown. It applies to the newest run, also while `loopty run` runs. Calls already in
    flight are not affected. `loopty show NODE` says where the directive chose the parent.
    """
    is_given = text is not None or bool(build_on) or bool(not_below)
    if clear and is_given:
        raise Misuse("give a directive or --clear, not both")
    if text is not None and not text.strip():
        raise Misuse("the directive is empty: `loopty model direct --clear` removes the present one")
    campaign = here()
    run = campaign.newest_run()
    if clear:
        campaign.direct("", (), ())
    elif is_given:
        campaign.direct(text, build_on or None, not_below or None)
    directive = campaign.directive(run)
    if as_json:
        print_json({"run": run, "directive": directive, **campaign.directed_nodes(run)})
    elif is_given:
        effect = "changes start where you said, and " if build_on or not_below else ""
        say(f"from now on {effect}the models of run {run} see this; `loopty model direct --clear` removes it")
    elif clear:
        say(f"run {run} has no directive any more")
    elif directive:
        echo("\n".join(map(printable_line, directive.splitlines())))
    else:
        say(f'run {run} has no directive: give one with `loopty model direct "…"`')


_NONE = (
    "no model is configured: add [models.NAME] to loopty.toml or to {own}; "
    "one that is served on this machine needs no key: docs/models.md of loopty"
)


@click.command("models")
@click.option("--try", "model", metavar="NAME", help="Send the model one tiny request, outside of any run.")
@json_option
def models_verb(model: str | None, as_json: bool) -> None:
    """List the models of loopty.toml and of your own configuration: roles, keys, prices, limits.

    A model served on this machine by llama.cpp, Ollama or vLLM needs no key: provider = "openai" with the
    server's address in url, such as http://127.0.0.1:8080/v1.

    Exits with 1 when the model named by --try gives no answer.
    """
    if model:
        sys.exit(0 if _try(model, as_json) else 1)
    else:
        _list(as_json)


def _list(as_json: bool) -> None:
    from loopty.session.models import named_models
    from loopty.show.spend import models_text

    entries = named_models(Path.cwd()).entries()
    if as_json:
        print_json([as_dict(entry) for entry in entries])
    elif entries:
        click.echo(models_text(entries, columns(), terminal()))
    else:
        say(_NONE.format(own=user_config_file(os.environ)))


def _try(name: str, as_json: bool) -> bool:
    """Ask the model once; whether it answered."""
    import asyncio  # here: verbs that only read do not need it

    from loopty.session.models import named_models, try_model

    answer = asyncio.run(try_model(named_models(Path.cwd()), name))
    reply = answer.reply
    if isinstance(reply, ModelFault):
        again = "; it may work later" if reply.transient else ""
        say(f"loopty: {answer.model} gave no answer: {reply}{again}")
        return False
    if as_json:
        facts = {
            "name": name,
            "model": answer.model,
            "seconds": answer.seconds,
            "money_usd": answer.money_usd,
        }
        print_json({**facts, **as_dict(reply)})
        return True
    money = "price unknown" if answer.money_usd is None else dollars(answer.money_usd)
    tokens = f"{plural(reply.usage.input_tokens, 'token')} in, {reply.usage.output_tokens:,} out"
    click.echo(f"{answer.model} answers after {duration(answer.seconds)} ({tokens}, {money})")
    say(cut(reply.text.strip(), columns()))
    return True
