"""From what is stated of a model to the model: the one table of who serves them. Nobody is asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from loopty.domain.errors import Misuse
from loopty.domain.model import Model, ModelSpec

FILE_PROVIDERS = ("scripted", "recorded")
"""Providers with a file in the place of a client."""
_PLACEHOLDER_KEY = "not-looked-for-here"


def make_model(
    name: str, stated: ModelSpec, top: Path, key: Callable[[], str | None], *, embeds: bool = False
) -> Model:
    """The model, with `embeds` as one that is asked for vectors. Raises Misuse where it cannot be asked."""
    file = top / Path(stated.file).expanduser()
    match stated.provider:
        case "scripted":
            from loopty.models.scripted_model import make_scripted_model

            return make_scripted_model(name, file)
        case "recorded":
            from loopty.models.recorded_model import make_recorded_model

            return make_recorded_model(name, file)
        case _ if embeds:
            from loopty.models.embedding import make_embedding_model

            return make_embedding_model(name, stated, key)
        case "local":
            from loopty.models.local_model import make_local_model

            return make_local_model(name, with_file_below(stated, top))
        case _:
            from loopty.models.provider_model import make_provider_model

            return make_provider_model(name, stated, key())


def client_problem(name: str, stated: ModelSpec, top: Path, *, embeds: bool = False) -> str | None:
    """Why there is no client for the model here, with the remedy; its key and its weights are another matter."""
    try:
        if stated.provider == "local" and not embeds:
            from loopty.models.local_model import require_library

            require_library(name)
        else:
            make_model(name, stated, top, lambda: _PLACEHOLDER_KEY, embeds=embeds)
    except Misuse as error:
        return str(error)
    return None


def with_file_below(stated: ModelSpec, top: Path) -> ModelSpec:
    """With its file where the task means it."""
    return replace(stated, file=str(top / Path(stated.file).expanduser())) if stated.file else stated
