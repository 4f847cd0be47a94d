"""What a benchmark asks of a model: a request, looked through, as it goes to the provider.

All but loopty's own terms goes through as it came.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any

from loopty.domain.model import ModelSpec
from loopty.models.endpoint.apis import API_HEADERS, Api
from loopty.models.endpoint.hosted_tools import refuse_hosted_tools
from loopty.models.endpoint.http_exchange import Request, RequestRefused
from loopty.models.endpoint.request_rules import apply_rules, is_repeatable, refuse_misspelt, stream_options
from loopty.models.endpoint.sizing import request_size
from loopty.models.meter import RequestSize

_GENERATE = re.compile(r"/(v1|v1beta|v1alpha)/models/[^/:]+:(generateContent|streamGenerateContent)")
_QUERY = re.compile(r"(alt|beta)=\w+")
_DEEPEST = 100
_MOST_PARTS = 500_000
"""Of brackets: a few megabytes of them would be hundreds in memory."""


@dataclass(frozen=True, slots=True)
class ForwardedCall:
    """A request as it goes to a provider: its bytes, not what they hold, for trials send many at once."""

    api: Api
    path: str
    query: str
    content: bytes
    stream: bool
    shows_usage: bool
    """Whether the client asked for the usage of a stream itself."""
    size: RequestSize
    repeatable: bool
    """Whether the same request would get the same answer again."""
    digest: str
    """Equal for equal requests, however they are written down."""


def parse_call(request: Request, stated: ModelSpec, model: str) -> ForwardedCall:
    """The call that a request means. Raises Refused."""
    api, stream = _api_of(request.path)
    if request.method != "POST":
        raise RequestRefused(405, "invalid_request_error", f"{request.path} is asked with POST")
    body = _parse_body(request.body)
    refuse_misspelt(body)
    refuse_hosted_tools(body)
    shows = stream_options(body).get("include_usage") is True
    longest = apply_rules(api, body, stated, model)
    stream = stream or body.get("stream") is True
    path = re.sub(r"(?<=/models/)[^/:]+", lambda _: model, request.path) if api is Api.GENERATE else request.path
    query = "&".join(part for part in request.query.split("&") if _QUERY.fullmatch(part))
    content = json.dumps(body, separators=(",", ":")).encode()
    size, repeatable = request_size(body, longest), is_repeatable(api, body)
    if size.input > stated.window_tokens:
        # Else it would be a cap that is too small for it, which no trial is blamed for.
        why = f"the request has about {size.input} tokens, and `context_tokens` is {stated.window_tokens}"
        raise RequestRefused(400, "context_length_exceeded", why)
    # A stream is another answer, and is kept as one; how it was asked for makes no difference.
    alike = {name: part for name, part in body.items() if name not in ("stream", "stream_options")}
    told_by = [request.headers.get(name) for name in API_HEADERS]
    said = json.dumps([path, query, stream, shows, told_by, alike], sort_keys=True)
    digest = hashlib.sha256(said.encode()).hexdigest()
    return ForwardedCall(api, path, query, content, stream, shows, size, repeatable, digest)


def _api_of(path: str) -> tuple[Api, bool]:
    if found := _GENERATE.fullmatch(path):
        return Api.GENERATE, found[2] == "streamGenerateContent"
    try:
        return Api(path), False
    except ValueError:
        raise RequestRefused(
            404, "not_found_error", f"there is no {path} here: ask at {', '.join(Api)} or /v1/models"
        ) from None


def _parse_body(raw: bytes) -> dict[str, Any]:
    if raw.count(b"[") + raw.count(b"{") > _MOST_PARTS:
        raise RequestRefused(400, "invalid_request_error", f"the request has more than {_MOST_PARTS} brackets")
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise RequestRefused(400, "invalid_request_error", "the request is no JSON object")
    within: list[Any] = [body]
    for _ in range(_DEEPEST):
        lists = [list(part.values()) if isinstance(part, dict) else part for part in within]
        within = [part for parts in lists for part in parts if isinstance(part, dict | list)]
    if within:
        raise RequestRefused(400, "invalid_request_error", f"the request is nested more than {_DEEPEST} deep")
    return body
