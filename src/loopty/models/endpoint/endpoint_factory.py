"""From a role's model to what serves it to trials."""

from __future__ import annotations

import math
import socket
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from loopty.domain.ids import NodeId
from loopty.domain.model import Role
from loopty.domain.task import RoleBudget
from loopty.models import prices
from loopty.models.archive import Archive
from loopty.models.catalogue import Catalogue
from loopty.models.endpoint.answer_source import AnswerSource
from loopty.models.endpoint.cache import Cache
from loopty.models.endpoint.chat_api import RoleModelSource
from loopty.models.endpoint.endpoint import Endpoint, Offer
from loopty.models.endpoint.forwarder import Forwarder
from loopty.models.endpoint.trial_access import ServeTrial, TrialAccess
from loopty.models.endpoint.upstream import Upstream, local_upstream, upstream_of
from loopty.models.purse import RunPurse
from loopty.models.spend_caps import Price


def make_endpoint(
    catalogue: Catalogue, budget: RoleBudget, purse: RunPurse, archive: Archive, folder: Path
) -> ServeTrial:
    """What serves the user role's model, paid from the purse; `folder` keeps replies for equal requests.

    Raises Misuse where the model is not known, its key is missing, or money is capped and cannot be counted.
    """
    name, stated = budget.model, catalogue.spec(budget.model)
    allowance = _allowance(budget)
    prices.require_cap(Role.USER, name, stated, allowance, "trial_tokens under [roles.user]")
    source: AnswerSource
    if (way := _upstream(catalogue, name)) is not None:
        model = way.model
        source = Forwarder(way, stated, catalogue.meter(Role.USER, name, purse), catalogue.retry(name))
    else:
        line = catalogue.role_model(Role.USER, name, purse, archive)
        model, source = line.model, RoleModelSource(line)
    offer = Offer(model, stated, source, purse, Cache(folder, budget.cache, f"{model} {stated.url}"), allowance)

    def serve(node: NodeId, listener: socket.socket) -> AbstractAsyncContextManager[TrialAccess]:
        return Endpoint(offer, node).serve(listener)

    return serve


def _allowance(budget: RoleBudget) -> Price:
    tokens, money_usd = budget.allowance
    return Price(math.inf if tokens is None else tokens, math.inf if money_usd is None else money_usd)


def _upstream(catalogue: Catalogue, name: str) -> Upstream | None:
    stated = catalogue.spec(name)
    if stated.provider != "local":
        return upstream_of(stated.display_name(name), stated, catalogue.key(name))
    from loopty.models.local_model import LocalModel

    model = catalogue.model(name)
    assert isinstance(model, LocalModel)

    async def server_address() -> tuple[int, str]:
        address = await model.server_address()
        return address.port, address.key

    return local_upstream(model.name, server_address)
