"""`loopty models`: what can be asked, and whether it answers."""

from __future__ import annotations

import dataclasses
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from loopty.cli.output import columns, here, json_option, look, print_json, say

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from loopty.domain.model import ModelSpec
    from loopty.domain.task import Roles

_QUESTION = "Answer with the one word: ready"
_LONGEST_ANSWER = 64
_NONE = (
    "no model is stated: add [models.NAME] to loopty.toml or to {own}; "
    "`loopty models --fetch smollm2` brings one that needs no key"
)


@click.command("models")
@click.option("--try", "tried", metavar="NAME", help="Send the model one tiny request, outside of any run.")
@click.option("--fetch", metavar="NAME", help="Download weights that need no key: smollm2.")
@json_option
def command(tried: str | None, fetch: str | None, as_json: bool) -> None:
    """List the models that loopty.toml and your own configuration name: roles, keys, prices, limits.

    A model served on this machine needs no key: provider = "local" with file = "PATH.gguf", or with
    model = "smollm2" after --fetch smollm2. That one has 135 million parameters: enough to see a model in the
    loop, far too weak for results. For Ollama, llama.cpp or vLLM: provider = "openai" and the server's url.

    Exits with 1 when a model that was tried gives no answer.
    """
    if tried and fetch:
        raise click.UsageError("--try and --fetch are two things: one at a time")
    if fetch:
        _fetch(fetch, as_json)
    elif tried:
        sys.exit(0 if _try(tried, as_json) else 1)
    else:
        _list(as_json)


def _list(as_json: bool) -> None:
    from loopty.models.model_list import model_entries
    from loopty.report.models_text import models_text
    from loopty.taskfile.model_tables import make_key_refusal, user_config_file

    named, stray = _named(), make_key_refusal(os.environ)
    found = list(model_entries(named.models, named.roles, os.environ, named.top, stray, named.embedding))
    if as_json:
        print_json([dataclasses.asdict(model) for model in found])
    elif found:
        click.echo(models_text(found, columns(), look()))
    else:
        say(_NONE.format(own=user_config_file(os.environ)))


def _try(name: str, as_json: bool) -> bool:
    """Whether the model answered."""
    import asyncio

    from loopty.domain.model import Message, ModelFault, Prompt, Speaker
    from loopty.models.catalogue import Catalogue
    from loopty.models.prices import rates_of
    from loopty.report.columns import cut
    from loopty.report.figures import dollars, duration, plural
    from loopty.taskfile.model_tables import make_key_refusal

    named = _named()
    catalogue = Catalogue(named.models, os.environ, named.top, key_refusal=make_key_refusal(os.environ))
    embeds = name in named.embedding and name not in named.asked
    model = catalogue.embedding_model(name) if embeds else catalogue.model(name)
    rates = rates_of(catalogue.spec(name), embeds=embeds)
    began = time.monotonic()
    try:
        reply = asyncio.run(
            model.reply(Prompt("", (Message(Speaker.ASKER, _QUESTION),), max_output_tokens=_LONGEST_ANSWER))
        )
    except ModelFault as fault:
        again = "; it may work later" if fault.transient else ""
        say(f"loopty: {model.name} gave no answer: {fault}{again}")
        return False
    seconds, cost = time.monotonic() - began, rates.cost(reply.usage) if rates else None
    if as_json:
        facts = {"name": name, "model": model.name, "seconds": seconds, "money_usd": cost}
        print_json({**facts, **dataclasses.asdict(reply)})
        return True
    money = "price unknown" if cost is None else dollars(cost)
    tokens = f"{plural(reply.usage.input_tokens, 'token')} in, {reply.usage.output_tokens:,} out"
    click.echo(f"{model.name} answers after {duration(seconds)} ({tokens}, {money})")
    say(cut(f"its vector: {reply.text}" if embeds else reply.text.strip(), columns()))
    return True


def _fetch(name: str, as_json: bool) -> None:
    from loopty.models.weights import KNOWN_WEIGHTS, fetch_weights, weights_file

    weights_file(name, os.environ)  # an unknown name is told before anything is said
    say(f"{name}: {KNOWN_WEIGHTS[name].description}")
    file = fetch_weights(name, os.environ)
    if as_json:
        print_json({"name": name, "file": str(file)})
        return
    click.echo(file)
    say(f'ask it: loopty models --try local:{name}; in loopty.toml: [roles.evolver] model = "local:{name}"')


@dataclasses.dataclass(frozen=True, slots=True)
class _Named:
    """The models that are named here."""

    top: Path
    """Where their paths begin."""
    models: Mapping[str, ModelSpec]
    roles: Roles
    embedding: Collection[str] = ()

    @property
    def asked(self) -> set[str]:
        """Those that are asked for text."""
        from loopty.domain.model import Role

        return {self.roles.of(role).model for role in Role}


def _named() -> _Named:
    """By the task; outside of one only by the user's own file."""
    from loopty.domain.access import TASK_FILE
    from loopty.domain.task import Roles
    from loopty.taskfile.model_tables import embedding_models, user_config_models
    from loopty.taskfile.read import load

    for folder in (here(), *here().parents):
        if (folder / TASK_FILE).exists():
            task = load(folder)
            return _Named(folder, task.models, task.roles, embedding_models(task.proposer))
    return _Named(here(), user_config_models(os.environ), Roles())
