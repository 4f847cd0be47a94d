"""Makes a model from its spec: the one table of providers. No request is sent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from loopty.domain.errors import Misuse
from loopty.domain.model import Model, ModelSpec

FILE_PROVIDERS = ("scripted", "recorded")
"""Providers that read a file and need no client."""
_PLACEHOLDER_KEY = "not-looked-for-here"


def make_model(name: str, spec: ModelSpec, top: Path, key: Callable[[], str | None]) -> Model:
    """The model. Raises Misuse when loopty cannot ask it."""
    file = top / Path(spec.file).expanduser()
    match spec.provider:
        case "scripted":
            from loopty.models.scripted_model import make_scripted_model

            return make_scripted_model(name, file)
        case "recorded":
            from loopty.models.recorded_model import make_recorded_model

            return make_recorded_model(name, file)
        case _:
            from loopty.models.provider_model import make_provider_model

            return make_provider_model(name, spec, key())


def client_problem(name: str, spec: ModelSpec, top: Path) -> str | None:
    """Why the model's client is missing, with the remedy, or None. Does not check its key."""
    try:
        make_model(name, spec, top, lambda: _PLACEHOLDER_KEY)
    except Misuse as error:
        return str(error)
    return None
