"""Makes the endpoint that serves a role's models to trials, or to coding agents."""

from __future__ import annotations

import math
import socket
from contextlib import AbstractAsyncContextManager

from loopty.domain.ids import NodeId
from loopty.domain.model import Role
from loopty.domain.role_spec import RoleBudget
from loopty.kit.safe_folder import SafeFolder
from loopty.models import prices
from loopty.models.archive import Archive
from loopty.models.catalogue import Catalogue
from loopty.models.endpoint.cache import Cache
from loopty.models.endpoint.chat_api import RoleModelSource
from loopty.models.endpoint.endpoint import BENCHMARK, Endpoint, EndpointTerms
from loopty.models.endpoint.forwarder import Forwarder
from loopty.models.endpoint.served_model import EndpointModel
from loopty.models.endpoint.trial_access import ServeTrial, TrialAccess
from loopty.models.endpoint.upstream import upstream_of
from loopty.models.purse import RunPurse
from loopty.models.spend_caps import Price


def make_endpoint(
    catalogue: Catalogue,
    budget: RoleBudget,
    purse: RunPurse,
    archive: Archive,
    folder: SafeFolder,
    role: Role = Role.USER,
    operator: str = BENCHMARK,
) -> ServeTrial:
    """A function that serves a role's models to a trial or an agent, paid from the purse; `folder` caches replies.

    An agent gets the first model alone. Raises Misuse when a model is unknown, its key is missing, or money is
    capped but the price is unknown.
    """
    allowance = _allowance(budget)
    # Only a benchmark asks the same again and again: an agent that got old replies would repeat old work.
    cache = budget.cache if role is Role.USER else "never"
    names = budget.names if role is Role.USER else (budget.model,)
    if role is Role.USER:
        for name in names:
            prices.require_cap(role, name, catalogue.spec(name), allowance, "trial_tokens under [roles.user]")
    models = tuple(_served_model(catalogue, budget, name, role, purse, archive) for name in names)
    terms = EndpointTerms(models, purse, Cache(folder, cache), allowance, role, operator)

    def serve(node: NodeId, listener: socket.socket) -> AbstractAsyncContextManager[TrialAccess]:
        return Endpoint(terms, node).serve(listener)

    return serve


def _served_model(
    catalogue: Catalogue, budget: RoleBudget, name: str, role: Role, purse: RunPurse, archive: Archive
) -> EndpointModel:
    spec, weight = catalogue.spec(name), budget.weight(name)
    if (upstream := upstream_of(spec.display_name(name), spec, catalogue.key(name))) is not None:
        source = Forwarder(upstream, spec, catalogue.meter(role, name, purse), catalogue.retry(name))
        return EndpointModel(upstream.model, spec, source, weight)
    role_model = catalogue.role_model(role, name, purse, archive)
    return EndpointModel(role_model.model, spec, RoleModelSource(role_model), weight)


def _allowance(budget: RoleBudget) -> Price:
    tokens, money_usd = budget.allowance
    return Price(math.inf if tokens is None else tokens, math.inf if money_usd is None else money_usd)
