"""A model from a GGUF file, served on this machine: no key, no account, no network."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from loopty.domain.errors import Misuse
from loopty.domain.model import Model, ModelFault, ModelSpec, Prompt, Reply, Speaker, Usage
from loopty.kit.own_installation import extra_command
from loopty.models.gguf import context_length
from loopty.models.local_server import LocalAddress, LocalServer, LocalServerSpec, server_for
from loopty.models.weights import weights_file

_SERVER_SETTINGS = ("threads", "parallel")
_OK, _SERVER_ERROR = 200, 500
_SPEAKERS = {Speaker.ASKER: "user", Speaker.MODEL: "assistant"}
_WRITING_SHARE = 2 / 3
"""The part of a request's time for writing the reply; the rest is for reading the prompt."""
_LONGEST_STRING = 1_000
"""Characters of a JSON string where the schema sets no limit: a small model may write on without end."""


def make_local_model(name: str, spec: ModelSpec) -> Model:
    """The model in `file`, or the weights that `model` names. Nothing is loaded before the first reply.

    Raises Misuse when the file or the library is missing.
    """
    require_library(name)
    file = gguf_file(name, spec, os.environ)
    context = context_of(file, spec)
    parallel = _positive_integer(name, spec, "parallel", 1)
    server_spec = LocalServerSpec(file, context, _positive_integer(name, spec, "threads", _free_cores()), parallel)
    return LocalModel(f"local:{spec.model or file.stem}", spec, server_for(server_spec), parallel)


def require_library(name: str) -> None:
    if importlib.util.find_spec("xllamacpp") is None:
        raise Misuse(f"model '{name}' is local and needs a library to serve it: run {extra_command('local')}")


def gguf_file(name: str, spec: ModelSpec, environ: Mapping[str, str]) -> Path:
    """The file with the weights. Raises Misuse when it is missing."""
    if spec.file:
        file = Path(spec.file).expanduser()
        if not file.is_file():
            raise Misuse(f"model '{name}': there is no file {file}: `file` is the path of the GGUF file")
        return file
    if not spec.model:
        raise Misuse(f'model \'{name}\' is local: name its weights with file = "PATH.gguf" or model = "smollm2"')
    file = weights_file(spec.model, environ)
    if not file.is_file():
        raise Misuse(f"the weights of {spec.model} are missing: run loopty models --fetch {spec.model}")
    return file


def context_of(file: Path, spec: ModelSpec) -> int:
    """The model's context in tokens: no more than it was trained with."""
    return min(spec.window_tokens, context_length(file) or spec.window_tokens)


class LocalModel:
    """Asks the local server of its file."""

    def __init__(self, name: str, spec: ModelSpec, server: LocalServer, parallel: int) -> None:
        self.name = name
        self._spec = spec
        self._server = server
        self._free = asyncio.Semaphore(parallel)

    async def reply(self, prompt: Prompt) -> Reply:
        async with self._free:  # the time of a request begins when the server is free for it
            return await self._ask(prompt)

    async def _ask(self, prompt: Prompt) -> Reply:
        address = await self.server_address()
        try:
            async with asyncio.timeout(self._spec.timeout_seconds):
                code, body = await _post(address, self._request(prompt))
        except TimeoutError as error:
            seconds = self._spec.timeout_seconds
            message = f"{self.name} gave no reply within {seconds:g} s: raise its timeout_seconds"
            raise ModelFault(message, transient=True) from error
        except (OSError, EOFError, ValueError) as error:
            reason = await asyncio.to_thread(self._server.stop)
            raise ModelFault(f"the server of {self.name} failed: {reason}", transient=True) from error
        if code != _OK:
            raise _fault(self.name, code, body)
        return _parse_reply(body)

    async def server_address(self) -> LocalAddress:
        """The server's address, once it has loaded the file. Raises ModelFault when that takes too long."""
        try:
            async with asyncio.timeout(self._spec.timeout_seconds):
                return await asyncio.to_thread(self._server.address)
        except TimeoutError as error:
            await asyncio.to_thread(self._server.stop)
            seconds = self._spec.timeout_seconds
            message = f"{self.name} was not loaded within {seconds:g} s: raise its timeout_seconds"
            raise ModelFault(message, transient=True) from error

    def _request(self, prompt: Prompt) -> dict[str, Any]:
        messages = [{"role": _SPEAKERS[message.speaker], "content": message.text} for message in prompt.messages]
        request: dict[str, Any] = {
            "messages": [*([{"role": "system", "content": prompt.system}] if prompt.system else []), *messages],
            "max_tokens": prompt.longest_reply(self._spec.max_output_tokens),
            # The text written by then counts as cut off, and may be of use; a timeout would discard it.
            "t_max_predict_ms": int(1000 * self._spec.timeout_seconds * _WRITING_SHARE),
        }
        if self._spec.temperature is not None:
            request["temperature"] = self._spec.temperature
        if prompt.schema is not None:
            named_schema = {"name": "reply", "schema": _bound_strings(prompt.schema), "strict": True}
            request["response_format"] = {"type": "json_schema", "json_schema": named_schema}
        extra = {key: value for key, value in self._spec.settings.items() if key not in _SERVER_SETTINGS}
        return {**request, **extra}


async def _post(address: LocalAddress, request: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
    """Ask for a chat completion. A caller that gives up closes the connection, and the server stops writing."""
    body = json.dumps(request).encode()
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
        f"Authorization: Bearer {address.key}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", address.port)
    try:
        writer.write(head.encode() + body)
        await writer.drain()
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").splitlines()
        headers = {key.lower(): value for key, _, value in (line.partition(":") for line in lines)}
        answer = await reader.readexactly(int(headers["content-length"]))
        return int(first.split()[1]), json.loads(answer)
    finally:
        writer.close()


def _bound_strings(schema: Any) -> Any:
    """The schema with a maximum length for every string."""
    if isinstance(schema, list):
        return [_bound_strings(part) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    limits = {} if schema.get("type") != "string" or "enum" in schema else {"maxLength": _LONGEST_STRING}
    return limits | {key: _bound_strings(part) for key, part in schema.items()}


def _parse_reply(body: Mapping[str, Any]) -> Reply:
    choice, usage = body["choices"][0], body["usage"]
    details = usage.get("prompt_tokens_details") or {}
    return Reply(
        choice["message"].get("content") or "",
        Usage(usage["prompt_tokens"], usage["completion_tokens"], details.get("cached_tokens", 0)),
        whole=choice["finish_reason"] != "length",
    )


def _fault(name: str, code: int, body: Mapping[str, Any]) -> ModelFault:
    error = body.get("error", {})
    message = str(error.get("message", code))
    if error.get("type") == "exceed_context_size_error":
        message = (
            f"the prompt has {error['n_prompt_tokens']} tokens, but the context of {name} is {error['n_ctx']}: "
            "lower file_tokens or briefing.tokens under [proposer], or raise context_tokens if the model allows it"
        )
    return ModelFault(message, transient=code >= _SERVER_ERROR)


def _free_cores() -> int:
    """All cores but one, which is for loopty and its trials: threads that wait for a busy core slow the model."""
    return max(len(os.sched_getaffinity(0)) - 1, 1)


def _positive_integer(name: str, spec: ModelSpec, setting: str, default: int) -> int:
    value = spec.settings.get(setting, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise Misuse(f"model '{name}': settings.{setting} must be a whole number above 0, not {value!r}")
    return value
