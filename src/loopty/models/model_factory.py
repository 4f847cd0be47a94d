"""From what is stated of a model to the model: the one table of who serves them. Nobody is asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from loopty.domain.errors import Misuse
from loopty.domain.model import Model, ModelSpec

PLAYED = ("scripted", "recorded")
"""Providers with a file in the place of a client."""
_ANY_KEY = "not-looked-for-here"


def made(name: str, stated: ModelSpec, top: Path, key: Callable[[], str | None], *, embeds: bool = False) -> Model:
    """The model, with `embeds` as one that is asked for vectors. Raises Misuse where it cannot be asked."""
    file = top / Path(stated.file).expanduser()
    match stated.provider:
        case "scripted":
            from loopty.models.scripted_model import scripted_model

            return scripted_model(name, file)
        case "recorded":
            from loopty.models.recorded_model import recorded_model

            return recorded_model(name, file)
        case _ if embeds:
            from loopty.models.embedding import embedding_model

            return embedding_model(name, stated, key)
        case "local":
            from loopty.models.local_model import local_model

            return local_model(name, placed(stated, top))
        case _:
            from loopty.models.provider_model import provider_model

            return provider_model(name, stated, key())


def unmade(name: str, stated: ModelSpec, top: Path, *, embeds: bool = False) -> str | None:
    """Why there is no client for the model here, with the remedy; its key and its weights are another matter."""
    try:
        if stated.provider == "local" and not embeds:
            from loopty.models.local_model import require_library

            require_library(name)
        else:
            made(name, stated, top, lambda: _ANY_KEY, embeds=embeds)
    except Misuse as error:
        return str(error)
    return None


def placed(stated: ModelSpec, top: Path) -> ModelSpec:
    """With its file where the task means it."""
    return replace(stated, file=str(top / Path(stated.file).expanduser())) if stated.file else stated
