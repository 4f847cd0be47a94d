"""Lists models without asking them: who serves them, whether they can be asked, and their prices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from loopty.domain.errors import Misuse
from loopty.domain.model import ModelSpec, Role
from loopty.domain.role_spec import Roles
from loopty.kit.records import Record
from loopty.models.catalogue import Catalogue, KeyRefusal
from loopty.models.keys import key_of
from loopty.models.prices import FREE_PROVIDERS, Rates, rates_of

_NOT_NEEDED = "not needed"


class ModelEntry(Record):
    """One model. It never includes the key itself."""

    name: str
    model: str
    """The name that the ledger shows."""
    roles: tuple[str, ...]
    """The roles that ask it."""
    url: str
    """Where it is served; empty for the provider's own address and for replies from a file."""
    key: str
    """`there`, `missing` or `not needed`."""
    address: str
    """Whether the key may be sent to the server: `allowed` or `refused`; empty when no key is sent."""
    problem: str
    """Why it cannot be asked, with the remedy; empty when no problem is known."""
    price: Rates | None
    """None when the price is unknown."""
    requests_per_minute: float | None
    tokens_per_minute: float | None


def model_entries(
    specs: Mapping[str, ModelSpec],
    roles: Roles,
    environ: Mapping[str, str],
    top: Path,
    key_refusal: KeyRefusal = lambda *_: None,
) -> Iterator[ModelEntry]:
    """The models of `specs`, and those that roles name as `provider:model`."""
    catalogue = Catalogue(specs, environ, top)
    users_by_name: dict[str, list[str]] = {name: [] for name in specs}
    for role in Role:
        for name in roles.of(role).names:
            users_by_name.setdefault(name, []).append(role)
    for name, users in users_by_name.items():
        spec = catalogue.spec(name)
        key, key_problem = _key_status(name, spec, environ)
        refusal = key_refusal(name, spec) if key != _NOT_NEEDED else None
        yield ModelEntry(
            name,
            spec.display_name(name),
            tuple(users),
            spec.url,
            key,
            "" if key == _NOT_NEEDED else "refused" if refusal else "allowed",
            "; ".join(filter(None, (key_problem, refusal))),
            rates_of(spec),
            spec.requests_per_minute,
            spec.tokens_per_minute,
        )


def _key_status(name: str, spec: ModelSpec, environ: Mapping[str, str]) -> tuple[str, str]:
    """The state of the key, and the problem with it or an empty text."""
    if spec.provider in FREE_PROVIDERS:
        return _NOT_NEEDED, ""
    try:
        return "there" if key_of(name, spec, environ) else _NOT_NEEDED, ""
    except Misuse as error:
        return "missing", str(error)
