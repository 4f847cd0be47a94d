"""What is known of models without asking them: who serves them, whether they can be asked, what they cost."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from loopty.domain.errors import Misuse
from loopty.domain.model import ModelSpec, Role
from loopty.domain.task import Roles
from loopty.models.catalogue import Catalogue, KeyRefusal
from loopty.models.keys import key_of
from loopty.models.model_factory import with_file_below
from loopty.models.prices import FREE_PROVIDERS, Rates, rates_of

EMBEDDING = "embedding"
"""Stands where roles do, for a model by which changes are compared."""
_NONE = "not needed"


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """One model. A key is never part of it."""

    name: str
    model: str
    """As the ledger shows it."""
    roles: tuple[str, ...]
    """Who asks it, and for what else it is there."""
    url: str
    """Where it is served; empty at the provider's own address, and here."""
    key: str
    """`there`, `missing` or `not needed`."""
    address: str
    """Whether the key may be sent where it is served: `allowed` or `refused`; empty where none is sent."""
    weights: str
    """`there` or `missing`; empty where somebody else serves it."""
    problem: str
    """Why it cannot be asked, with the remedy; empty where nothing is known to be wrong."""
    price: Rates | None
    """None where it is not known."""
    requests_per_minute: float | None
    tokens_per_minute: float | None


def model_entries(
    specs: Mapping[str, ModelSpec],
    roles: Roles,
    environ: Mapping[str, str],
    top: Path,
    key_refusal: KeyRefusal = lambda *_: None,
    embedding_models: Collection[str] = (),
) -> Iterator[ModelEntry]:
    """The stated models, and those that roles or `embedding` name as `provider:model`."""
    catalogue = Catalogue(specs, environ, top)
    named: dict[str, list[str]] = {name: [] for name in specs}
    for role in Role:
        if name := roles.of(role).model:
            named.setdefault(name, []).append(role)
    for name in embedding_models:
        named.setdefault(name, []).append(EMBEDDING)
    for name, asking in named.items():
        found = catalogue.spec(name)
        key, missing = _key_status(name, found, environ)
        refused = key_refusal(name, found) if key != _NONE else None
        absent = _missing_weights(name, found, environ, top)
        yield ModelEntry(
            name,
            found.display_name(name),
            tuple(asking),
            found.url,
            key,
            "" if key == _NONE else "refused" if refused else "allowed",
            "" if found.provider != "local" else "missing" if absent else "there",
            "; ".join(filter(None, (missing, refused, absent))),
            rates_of(found, embeds=set(asking) == {EMBEDDING}),
            found.requests_per_minute,
            found.tokens_per_minute,
        )


def _key_status(name: str, stated: ModelSpec, environ: Mapping[str, str]) -> tuple[str, str]:
    """Where the key stands, and what is wrong with it."""
    if stated.provider in FREE_PROVIDERS:
        return _NONE, ""
    try:
        return "there" if key_of(name, stated, environ) else _NONE, ""
    except Misuse as error:
        return "missing", str(error)


def _missing_weights(name: str, stated: ModelSpec, environ: Mapping[str, str], top: Path) -> str:
    from loopty.models.local_model import gguf_file

    if stated.provider != "local":
        return ""
    try:
        gguf_file(name, with_file_below(stated, top), environ)
    except Misuse as error:
        return str(error)
    return ""
