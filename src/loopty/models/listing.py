"""What is known of models without asking them: who serves them, whether they can be asked, what they cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from loopty.core.errors import Misuse
from loopty.core.model import Role, Stated
from loopty.core.task import Roles
from loopty.models.catalogue import Catalogue, Stray
from loopty.models.prices import Rates, price


@dataclass(frozen=True, slots=True)
class Listed:
    """One model. A key is never part of it."""

    name: str
    model: str
    """As the ledger shows it."""
    roles: tuple[str, ...]
    key: str
    """`there`, `missing` or `not needed`."""
    problem: str
    """Why it cannot be asked, with the remedy; empty where nothing is known to be wrong."""
    price: Rates | None
    """None where it is not known."""
    requests_per_minute: float | None
    tokens_per_minute: float | None


def listed(
    stated: Mapping[str, Stated],
    roles: Roles,
    environ: Mapping[str, str],
    top: Path,
    stray: Stray = lambda *_: None,
) -> Iterator[Listed]:
    """The stated models, and those that roles name as `provider:model`."""
    catalogue = Catalogue(stated, environ, top, stray=stray)
    named: dict[str, list[str]] = {name: [] for name in stated}
    for role in Role:
        if name := roles.of(role).model:
            named.setdefault(name, []).append(role)
    for name, asking in named.items():
        found = catalogue.stated(name)
        key, problem = _key(catalogue, name)
        yield Listed(
            name,
            found.shown(name),
            tuple(asking),
            key,
            problem or _without_weights(name, found, environ, top),
            price(found),
            found.requests_per_minute,
            found.tokens_per_minute,
        )


def _key(catalogue: Catalogue, name: str) -> tuple[str, str]:
    try:
        return "there" if catalogue.key(name) else "not needed", ""
    except Misuse as error:
        return "missing", str(error)


def _without_weights(name: str, stated: Stated, environ: Mapping[str, str], top: Path) -> str:
    from loopty.models.local import gguf_file

    if stated.provider != "local":
        return ""
    try:
        gguf_file(name, replace(stated, file=stated.file and str(top / Path(stated.file).expanduser())), environ)
    except Misuse as error:
        return str(error)
    return ""
