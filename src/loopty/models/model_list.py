"""What is known of models without asking them: who serves them, whether they can be asked, what they cost."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from loopty.domain.errors import Misuse
from loopty.domain.model import ModelSpec, Role
from loopty.domain.task import Roles
from loopty.models.catalogue import Catalogue, Stray
from loopty.models.keys import key_of
from loopty.models.model_factory import placed
from loopty.models.prices import OURS, Rates, price

EMBEDDING = "embedding"
"""Stands where roles do, for a model by which changes are compared."""
_NONE = "not needed"


@dataclass(frozen=True, slots=True)
class Listed:
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


def listed(
    stated: Mapping[str, ModelSpec],
    roles: Roles,
    environ: Mapping[str, str],
    top: Path,
    stray: Stray = lambda *_: None,
    embedding: Collection[str] = (),
) -> Iterator[Listed]:
    """The stated models, and those that roles or `embedding` name as `provider:model`."""
    catalogue = Catalogue(stated, environ, top)
    named: dict[str, list[str]] = {name: [] for name in stated}
    for role in Role:
        if name := roles.of(role).model:
            named.setdefault(name, []).append(role)
    for name in embedding:
        named.setdefault(name, []).append(EMBEDDING)
    for name, asking in named.items():
        found = catalogue.stated(name)
        key, missing = _key(name, found, environ)
        refused = stray(name, found) if key != _NONE else None
        absent = _without_weights(name, found, environ, top)
        yield Listed(
            name,
            found.display_name(name),
            tuple(asking),
            found.url,
            key,
            "" if key == _NONE else "refused" if refused else "allowed",
            "" if found.provider != "local" else "missing" if absent else "there",
            "; ".join(filter(None, (missing, refused, absent))),
            price(found, embeds=set(asking) == {EMBEDDING}),
            found.requests_per_minute,
            found.tokens_per_minute,
        )


def _key(name: str, stated: ModelSpec, environ: Mapping[str, str]) -> tuple[str, str]:
    """Where the key stands, and what is wrong with it."""
    if stated.provider in OURS:
        return _NONE, ""
    try:
        return "there" if key_of(name, stated, environ) else _NONE, ""
    except Misuse as error:
        return "missing", str(error)


def _without_weights(name: str, stated: ModelSpec, environ: Mapping[str, str], top: Path) -> str:
    from loopty.models.local_model import gguf_file

    if stated.provider != "local":
        return ""
    try:
        gguf_file(name, placed(stated, top), environ)
    except Misuse as error:
        return str(error)
    return ""
