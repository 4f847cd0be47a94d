"""A benchmark's request to a model: which API it speaks, what is refused, its limits; ready to be forwarded."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from enum import StrEnum
from typing import Any

from loopty.domain.model import ModelSpec
from loopty.features.endpoint.http_exchange import Request, RequestRefused
from loopty.kit.model_text import byte_size, tokens
from loopty.kit.records import Record
from loopty.models.meter import RequestSize

API_HEADERS = ("accept", "anthropic-version", "anthropic-beta", "openai-beta")
"""Request headers that select how an API answers."""


class Api(StrEnum):
    """An API to ask a model, by the path that clients use."""

    CHAT = "/v1/chat/completions"
    RESPONSES = "/v1/responses"
    EMBEDDINGS = "/v1/embeddings"
    MESSAGES = "/v1/messages"
    GENERATE = "/v1beta/models/MODEL:generateContent"


# Everything that loopty's rules do not set goes through unchanged.


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
    """Read the JSON object of a request that may be forwarded. Raises RequestRefused."""
    _api_of(request.path)
    if request.method != "POST":
        raise RequestRefused(405, "invalid_request_error", f"{request.path} takes only POST")
    body = _parse_body(request.body)
    refuse_misspelt(body)
    refuse_hosted_tools(body)
    return body


def make_call(request: Request, body: Body, spec: ModelSpec, model: str) -> ForwardedCall:
    """Make the call of a request with this body, which the rules are written into. Raises RequestRefused."""
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
    return ForwardedCall(
        api=api,
        path=path,
        query=query,
        content=content,
        stream=stream,
        shows_usage=shows_usage,
        size=size,
        repeatable=repeatable,
        digest=digest,
    )


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


Body = dict[str, Any]

_MAX_ANSWERS = 16
_NAMES = (
    "model",
    "models",
    "stream",
    "stream_options",
    "n",
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "temperature",
    "seed",
    "tools",
    "background",
    "generationConfig",
    "generation_config",
)
_NAME_BY_LOWER_CASE = {name.casefold(): name for name in _NAMES}
_MEDIA_TOKENS = 4096
_MEDIA = re.compile(r"(data:[^,]*,)?[A-Za-z0-9+/=_-]{4096,}")
"""An encoded picture, sound or document: its cost has little to do with its length."""


def refuse_misspelt(body: Body) -> None:
    """Raise RequestRefused when a setting differs only in case: a server that ignores case would accept it."""
    for name in body:
        if (known := _NAME_BY_LOWER_CASE.get(name.casefold())) and name not in _NAMES:
            raise RequestRefused(400, "invalid_request_error", f"`{name}` must be spelt `{known}`")


def apply_rules(api: Api, body: Body, spec: ModelSpec, model: str) -> int:
    """Write loopty's settings into a request; returns the most tokens of its answer. Raises RequestRefused."""
    if api is not Api.GENERATE:  # there the path names the model
        body["model"] = model
    if api is Api.CHAT and body.get("stream") is True:
        body["stream_options"] = {**stream_options(body), "include_usage": True}
    return _RULES[api](body, spec)


def stream_options(body: Body) -> Body:
    options = body.get("stream_options")
    return options if isinstance(options, dict) else {}


def is_repeatable(api: Api, body: Body) -> bool:
    """Say whether the same request would get the same answer again."""
    settings = body.get("generationConfig", {}) if api is Api.GENERATE else body
    return settings.get("temperature") == 0 or settings.get("seed") is not None or api is Api.EMBEDDINGS


def request_size(body: Body, output_tokens: int) -> RequestSize:
    """Compute the size of a request with an answer of at most `output_tokens`."""
    expected = maximum = 0
    pending: list[Any] = [body]
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            pending += [*part, *part.values()]
        elif isinstance(part, list):
            pending += part
        elif isinstance(part, str) and _MEDIA.fullmatch(part):
            # A text may look like media: it counts as a picture in the estimate, and as a text in the maximum.
            expected, maximum = expected + _MEDIA_TOKENS, maximum + max(_MEDIA_TOKENS, byte_size(part))
        else:
            text = str(part)
            expected, maximum = expected + tokens(text), maximum + byte_size(text)
    return RequestSize(expected, maximum, output_tokens)


def _apply_to_chat(body: Body, spec: ModelSpec) -> int:
    _set_temperature(body, spec)
    # OpenAI-compatible servers may not know the newer name, and OpenAI's newer models not the older one.
    default = "max_tokens" if spec.url or spec.provider != "openai" else "max_completion_tokens"
    names = [name for name in ("max_completion_tokens", "max_tokens") if body.get(name) is not None] or [default]
    return max(_cap_output(body, name, spec) for name in names) * _answer_count(body, "n")


def _apply_to_responses(body: Body, spec: ModelSpec) -> int:
    if body.get("background"):
        raise RequestRefused(
            400, "invalid_request_error", "`background` is not allowed: its tokens would not be counted"
        )
    _set_temperature(body, spec)
    return _cap_output(body, "max_output_tokens", spec)


def _apply_to_messages(body: Body, spec: ModelSpec) -> int:
    _set_temperature(body, spec)
    return _cap_output(body, "max_tokens", spec)


def _apply_to_generate(body: Body, spec: ModelSpec) -> int:
    # One spelling of loopty's settings: the API knows two, and would accept either.
    settings = body.pop("generation_config", None)
    settings = body.get("generationConfig", settings)
    settings = dict(settings) if isinstance(settings, dict) else {}
    for other, name in (("max_output_tokens", "maxOutputTokens"), ("candidate_count", "candidateCount")):
        if other in settings:
            value = settings.pop(other)
            settings.setdefault(name, value)
    body["generationConfig"] = settings
    _set_temperature(settings, spec)
    return _cap_output(settings, "maxOutputTokens", spec) * _answer_count(settings, "candidateCount")


_RULES: dict[Api, Callable[[Body, ModelSpec], int]] = {
    Api.CHAT: _apply_to_chat,
    Api.RESPONSES: _apply_to_responses,
    Api.MESSAGES: _apply_to_messages,
    Api.GENERATE: _apply_to_generate,
    Api.EMBEDDINGS: lambda _body, _spec: 0,
}


def _cap_output(settings: Body, name: str, spec: ModelSpec) -> int:
    wanted, limit = settings.get(name), spec.max_output_tokens
    valid = isinstance(wanted, int) and not isinstance(wanted, bool) and wanted > 0
    settings[name] = allowed = min(int(wanted or limit), limit) if valid else limit
    return allowed


def _answer_count(settings: Body, name: str) -> int:
    """Read the number of answers that a request asks for. Raises RequestRefused."""
    wanted = settings.get(name)
    if wanted is None:
        return 1
    if not isinstance(wanted, int) or not 1 <= wanted <= _MAX_ANSWERS:
        raise RequestRefused(
            400, "invalid_request_error", f"`{name}` must be a whole number from 1 to {_MAX_ANSWERS}"
        )
    return wanted


def _set_temperature(settings: Body, spec: ModelSpec) -> None:
    if spec.temperature is not None:
        settings.setdefault("temperature", spec.temperature)


# Each of these would be a way out of the sandbox that no network rule sees, or a cost that no token count shows.


_OWN_TOOLS = ("function", "custom", "local_shell", "apply_patch", "bash_", "text_editor_", "computer_", "memory_")
"""Kinds of tools that the client runs, of OpenAI and Anthropic; Anthropic's tools without a kind run there too."""
_DECLARATIONS = {"functionDeclarations", "function_declarations"}
_SERVICES = {
    "web_search_options",
    "search_parameters",
    "enable_search",
    "data_sources",
    "mcp_servers",
    "container",
    "plugins",
}
_FORBIDDEN = {
    "models": "leads to another model",
    "route": "leads to another model",
    "provider": "leads to another server of the model, at another price",
    "service_tier": "has another price",
    "speed": "has another price",
    "previous_response_id": "refers to data that another request left at the provider",
    "conversation": "refers to data that another request left at the provider",
    "prompt": "refers to data stored at the provider",
    "cachedContent": "refers to data stored at the provider",
    "cached_content": "refers to data stored at the provider",
    "best_of": "makes answers that are not counted",
}
"""A request must be self-contained, and for this one model."""
_USUAL_TIERS = ("auto", "default", "standard", "standard_only", "flex")
_ADDRESSES = {"image_url", "file_url", "fileuri", "file_uri", "url"}
_STORED = {"file_id", "fileid", "file_ids", "vector_store_ids"}
_DATA = ("input", "args", "arguments", "parameters", "input_schema", "schema", "response", "metadata")
"""Objects under these names belong to a tool, whatever they contain."""


def refuse_hosted_tools(body: dict[str, Any]) -> None:
    """Raise RequestRefused when the request asks the provider for more than the model."""
    for name, value in body.items():
        if value in (None, False, "", []):
            continue
        if name in _SERVICES:
            _refuse(f"`{name}`")
        if name in _FORBIDDEN and not (name == "service_tier" and value in _USUAL_TIERS):
            raise RequestRefused(400, "invalid_request_error", f"`{name}` {_FORBIDDEN[name]}: it is not allowed")
    # Google accepts a single tool in place of a list.
    tools = body.get("tools") or []
    for tool in tools if isinstance(tools, list) else [tools]:
        if not (isinstance(tool, dict) and _runs_here(tool)):
            _refuse(f"the tool `{_kind(tool)}`")
    _refuse_addresses({name: part for name, part in body.items() if name != "tools"})


def _kind(tool: Any) -> str:
    return str(tool.get("type") or next(iter(tool), ""))[:80] if isinstance(tool, dict) else str(tool)[:80]


def _runs_here(tool: dict[str, Any]) -> bool:
    if tool.get("type") == "namespace":
        inner = tool.get("tools")
        return isinstance(inner, list) and all(isinstance(one, dict) and _is_plain_tool(one) for one in inner)
    return _is_plain_tool(tool)


def _is_plain_tool(tool: dict[str, Any]) -> bool:
    if (kind := tool.get("type")) is not None:
        return isinstance(kind, str) and kind.startswith(_OWN_TOOLS)
    return "name" in tool or set(tool) <= _DECLARATIONS


def _refuse_addresses(body: dict[str, Any]) -> None:
    pending: list[Any] = [body]
    while pending:
        part = pending.pop()
        if isinstance(part, list):
            pending += part
        elif isinstance(part, dict):
            for name, value in part.items():
                lower_case = name.casefold()  # some servers ignore case
                if lower_case in _ADDRESSES and isinstance(value, str) and not value.startswith("data:"):
                    _refuse(f"`{name}` with an address", "; send the content itself as a data: address")
                if lower_case in _STORED and value:
                    _refuse(f"`{name}`", "; send the content itself")
                if not (name in _DATA and isinstance(value, dict)):
                    pending.append(value)


def _refuse(subject: str, remedy: str = "") -> None:
    message = f"{subject} would let the provider reach out of the sandbox: it is not allowed{remedy}"
    raise RequestRefused(400, "invalid_request_error", message)
