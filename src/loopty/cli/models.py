"""`loopty models`: which models can be asked, and whether one answers."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from loopty.cli.output import columns, json_option, print_json, say, terminal
from loopty.kit.records import as_dict

_NONE = (
    "no model is configured: add [models.NAME] to loopty.toml or to {own}; "
    "one that is served on this machine needs no key: docs/models.md of loopty"
)


@click.command("models")
@click.option("--try", "model", metavar="NAME", help="Send the model one tiny request, outside of any run.")
@json_option
def command(model: str | None, as_json: bool) -> None:
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
    from loopty.campaign.named_models import named_models
    from loopty.report.models_text import models_text
    from loopty.taskfile.model_tables import user_config_file

    entries = named_models(Path.cwd()).entries()
    if as_json:
        print_json([as_dict(entry) for entry in entries])
    elif entries:
        click.echo(models_text(entries, columns(), terminal()))
    else:
        say(_NONE.format(own=user_config_file(os.environ)))


def _try(name: str, as_json: bool) -> bool:
    """Ask the model once; whether it answered."""
    import asyncio

    from loopty.campaign.named_models import named_models, try_model
    from loopty.domain.model import ModelFault
    from loopty.report.columns import cut
    from loopty.report.figures import dollars, duration, plural

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
