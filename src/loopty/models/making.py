"""Whether this machine has what it takes to ask a model, found out by making its client. Nobody is asked."""

from __future__ import annotations

from pathlib import Path

from loopty.core.errors import Misuse
from loopty.core.model import Stated

_ANY_KEY = "not-looked-for-here"


def unmade(name: str, stated: Stated, top: Path, *, embeds: bool = False) -> str | None:
    """Why there is no client for the model here, with the remedy; its key and its weights are another matter.

    `embeds`: it is to be asked for vectors.
    """
    file = top / Path(stated.file).expanduser()
    try:
        match stated.provider:
            case "scripted":
                from loopty.models.scripted import scripted_model

                scripted_model(name, file)
            case "recorded":
                from loopty.models.recorded import recorded_model

                recorded_model(name, file)
            case _ if embeds:
                from loopty.models.embedding import embedding_model

                embedding_model(name, stated, lambda: _ANY_KEY)
            case "local":
                from loopty.models.local import require_library

                require_library(name)
            case _:
                from loopty.models.provider import provider_model

                provider_model(name, stated, _ANY_KEY)
    except Misuse as error:
        return str(error)
    return None
