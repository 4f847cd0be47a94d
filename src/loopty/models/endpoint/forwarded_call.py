"""A benchmark's request to a model: checked, limited, and ready to be forwarded to the provider.

Everything that loopty's rules do not set goes through unchanged.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from loopty.domain.model import ModelSpec
from loopty.kit.records import Record
from loopty.models.endpoint.apis import API_HEADERS, Api
from loopty.models.endpoint.hosted_tools import refuse_hosted_tools
from loopty.models.endpoint.http_exchange import Request, RequestRefused
from loopty.models.endpoint.request_rules import (
    Body,
    apply_rules,
    is_repeatable,
    refuse_misspelt,
    request_size,
    stream_options,
)
from loopty.models.meter import RequestSize

_GENERATE = re.compile(r"/(v1|v1beta|v1alpha)/models/[^/:]+:(generateContent|streamGenerateContent)")
_QUERY = re.compile(r"(alt|beta)=\w+")
_MAX_DEPTH = 100
_MAX_PARTS = 500_000
"""The number of brackets: a few megabytes of them would take hundreds in memory."""


class ForwardedCall(Record):
    """A request as it goes to a provider: as bytes, not as objects, because trials send many at once."""

    api: Api
    path: str
    query: str
    content: bytes
    stream: bool
    shows_usage: bool
    """Whether the client itself asked for the usage of a stream."""
    size: RequestSize
    repeatable: bool
    """Whether the same request would get the same answer again."""
    digest: str
    """Equal for equal requests, whatever their formatting."""


def read_body(request: Request) -> Body:
    """The JSON object of a request that may be forwarded. Raises RequestRefused."""
    _api_of(request.path)
    if request.method != "POST":
        raise RequestRefused(405, "invalid_request_error", f"{request.path} takes only POST")
    body = _parse_body(request.body)
    refuse_misspelt(body)
    refuse_hosted_tools(body)
    return body


def make_call(request: Request, body: Body, spec: ModelSpec, model: str) -> ForwardedCall:
    """The call in a request with this body, which the rules are written into. Raises RequestRefused."""
    api, stream = _api_of(request.path)
    shows_usage = stream_options(body).get("include_usage") is True
    longest = apply_rules(api, body, spec, model)
    stream = stream or body.get("stream") is True
    path = re.sub(r"(?<=/models/)[^/:]+", lambda _: model, request.path) if api is Api.GENERATE else request.path
    query = "&".join(part for part in request.query.split("&") if _QUERY.fullmatch(part))
    content = json.dumps(body, separators=(",", ":")).encode()
    size, repeatable = request_size(body, longest), is_repeatable(api, body)
    if size.input > spec.context_tokens:
        # Otherwise a cap would be too small for it, which is no fault of the trial.
        reason = f"the request has about {size.input} tokens, but `context_tokens` is {spec.context_tokens}"
        raise RequestRefused(400, "context_length_exceeded", reason)
    # A stream is another answer, and is cached as one; how the client asked for it makes no difference.
    relevant = {name: part for name, part in body.items() if name not in ("stream", "stream_options")}
    api_headers = [request.headers.get(name) for name in API_HEADERS]
    identity = json.dumps([path, query, stream, shows_usage, api_headers, relevant], sort_keys=True)
    digest = hashlib.sha256(identity.encode()).hexdigest()
    return ForwardedCall(api, path, query, content, stream, shows_usage, size, repeatable, digest)


def _api_of(path: str) -> tuple[Api, bool]:
    if match := _GENERATE.fullmatch(path):
        return Api.GENERATE, match[2] == "streamGenerateContent"
    try:
        return Api(path), False
    except ValueError:
        raise RequestRefused(
            404, "not_found_error", f"there is no {path} here: use {', '.join(Api)} or /v1/models"
        ) from None


def _parse_body(raw: bytes) -> Body:
    if raw.count(b"[") + raw.count(b"{") > _MAX_PARTS:
        raise RequestRefused(400, "invalid_request_error", f"the request has more than {_MAX_PARTS} brackets")
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise RequestRefused(400, "invalid_request_error", "the request is not a JSON object")
    nested: list[Any] = [body]
    for _ in range(_MAX_DEPTH):
        lists = [list(part.values()) if isinstance(part, dict) else part for part in nested]
        nested = [part for parts in lists for part in parts if isinstance(part, dict | list)]
    if nested:
        raise RequestRefused(
            400, "invalid_request_error", f"the request is nested more than {_MAX_DEPTH} levels deep"
        )
    return body
