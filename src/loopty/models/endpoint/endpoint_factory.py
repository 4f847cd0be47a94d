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
from loopty.models.endpoint.answer_source import Source
from loopty.models.endpoint.cache import Cache
from loopty.models.endpoint.chat_api import Speaking
from loopty.models.endpoint.endpoint import Endpoint, Offer
from loopty.models.endpoint.forwarder import Forwarding
from loopty.models.endpoint.trial_access import Door, Serving
from loopty.models.endpoint.upstream import Upstream, on_this_machine, upstream
from loopty.models.purse import RunPurse
from loopty.models.spend_caps import Price


def opened(catalogue: Catalogue, funds: RoleBudget, purse: RunPurse, archive: Archive, folder: Path) -> Serving:
    """What serves the user role's model, paid from the purse; `folder` keeps replies for equal requests.

    Raises Misuse where the model is not known, its key is missing, or money is capped and cannot be counted.
    """
    name, stated = funds.model, catalogue.stated(funds.model)
    allowance = _allowance(funds)
    prices.require_cap(Role.USER, name, stated, allowance, "trial_tokens under [roles.user]")
    source: Source
    if (way := _way(catalogue, name)) is not None:
        model = way.model
        source = Forwarding(way, stated, catalogue.meter(Role.USER, name, purse), catalogue.retry(name))
    else:
        line = catalogue.line(Role.USER, name, purse, archive)
        model, source = line.model, Speaking(line)
    offer = Offer(model, stated, source, purse, Cache(folder, funds.cache, f"{model} {stated.url}"), allowance)

    def serving(node: NodeId, listener: socket.socket) -> AbstractAsyncContextManager[Door]:
        return Endpoint(offer, node).serving(listener)

    return serving


def _allowance(funds: RoleBudget) -> Price:
    tokens, money_usd = funds.allowance
    return Price(math.inf if tokens is None else tokens, math.inf if money_usd is None else money_usd)


def _way(catalogue: Catalogue, name: str) -> Upstream | None:
    stated = catalogue.stated(name)
    if stated.provider != "local":
        return upstream(stated.display_name(name), stated, catalogue.key(name))
    from loopty.models.local_model import LocalModel

    model = catalogue.model(name)
    assert isinstance(model, LocalModel)

    async def served() -> tuple[int, str]:
        address = await model.served()
        return address.port, address.key

    return on_this_machine(model.name, served)
