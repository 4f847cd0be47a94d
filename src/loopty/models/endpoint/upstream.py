"""Where a provider serves its models, which APIs it speaks, and how it wants the key."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from loopty.domain.model import ModelSpec
from loopty.kit.records import Record
from loopty.models.endpoint.apis import API_HEADERS, Api
from loopty.models.endpoint.forwarded_call import ForwardedCall
from loopty.models.endpoint.http_exchange import Request, RequestRefused
from loopty.models.hosts import PROVIDER_URLS

_OPENAI = (Api.CHAT, Api.RESPONSES, Api.EMBEDDINGS)
_LIKE_OPENAI = PROVIDER_URLS.keys() - {"anthropic", "google"}
_VISIBLE = ("content-type", "retry-after", "request-id", "x-request-id")
_VERSION = "/v1"


class UpstreamAddress(Record):
    """An address and the key to it; `versionless` when the address does not include the version."""

    base_url: str
    key: str | None
    versionless: bool = True

    def __repr__(self) -> str:
        return f"UpstreamAddress(base_url={self.base_url!r})"  # the key is for no log


class Upstream(Record):
    """A provider that loopty can forward calls to."""

    model: str
    """The name that the ledger shows."""
    apis: Collection[Api]
    address: UpstreamAddress
    key_header: str = "authorization"

    def refuse_unsupported(self, call: ForwardedCall) -> None:
        if call.api not in self.apis:
            raise RequestRefused(
                400,
                "invalid_request_error",
                f"the user role's model, {self.model}, does not answer at {call.path}: use {', '.join(self.apis)}",
            )

    def url(self, call: ForwardedCall) -> str:
        path = call.path if self.address.versionless else call.path.removeprefix(_VERSION)
        return self.address.base_url.rstrip("/") + path + (f"?{call.query}" if call.query else "")

    def headers(self, request: Request) -> dict[str, str]:
        """The headers to send: of the benchmark's own only those that select how the API answers."""
        sent = {name: request.headers[name] for name in API_HEADERS if _is_plain(request.headers.get(name, ""))}
        if Api.MESSAGES in self.apis:
            sent.setdefault("anthropic-version", "2023-06-01")
        sent["content-type"] = "application/json"
        if (key := self.address.key) is not None:
            sent[self.key_header] = f"Bearer {key}" if self.key_header == "authorization" else key
        return sent


def upstream_of(model: str, spec: ModelSpec, key: str | None) -> Upstream | None:
    """How to forward calls to the provider, or None when loopty cannot."""

    def address(versionless: bool) -> UpstreamAddress:
        return UpstreamAddress(spec.url or PROVIDER_URLS[spec.provider], key, versionless)

    if spec.provider == "anthropic":
        return Upstream(model, (Api.MESSAGES,), address(versionless=True), "x-api-key")
    if spec.provider == "google":
        return Upstream(model, (Api.GENERATE,), address(versionless=True), "x-goog-api-key")
    if spec.provider in _LIKE_OPENAI:
        return Upstream(model, _OPENAI, address(versionless=False))
    return None


def visible_headers(headers: Mapping[str, str], key: str | None) -> dict[str, str]:
    """The headers of a provider that the benchmark sees."""
    shown = {name: headers.get(name, "") for name in _VISIBLE}
    return {name: value for name, value in shown.items() if _is_plain(value) and not (key and key in value)}


def _is_plain(value: str) -> bool:
    """Whether a header's value can be passed on: some libraries accept bytes that others do not send."""
    return bool(value) and value.isascii() and value.isprintable()
