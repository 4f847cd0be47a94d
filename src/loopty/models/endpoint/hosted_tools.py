"""Refuses requests that would have the provider fetch, search, run or remember something, or ask another model.

Each of these would be a way out of the sandbox that no network rule sees, or a cost that no token count shows.
"""

from __future__ import annotations

from typing import Any

from loopty.models.endpoint.http_exchange import RequestRefused

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
