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
from loopty.models.gguf import context_length
from loopty.models.local_server import LocalAddress, LocalServer, LocalServerSpec, server_for
from loopty.models.weights import weights_file

_OF_THE_SERVER = ("threads", "parallel")
_OK, _SERVER_ERROR = 200, 500
_SPEAKERS = {Speaker.ASKER: "user", Speaker.MODEL: "assistant"}
_WRITING = 2 / 3
"""How much of a request's time is for the reply; the rest is for reading the prompt."""
_LONGEST_STRING = 1_000
"""Characters of a string in JSON, where the schema sets no limit: a small model may find no end."""


def make_local_model(name: str, stated: ModelSpec) -> Model:
    """The model in `file`, or in the weights that `model` names; nothing is loaded before the first reply.

    Raises Misuse when the file or the library is not there.
    """
    require_library(name)
    file = gguf_file(name, stated, os.environ)
    context = context_of(file, stated)
    parallel = _positive_integer(name, stated, "parallel", 1)
    order = LocalServerSpec(file, context, _positive_integer(name, stated, "threads", _free_cores()), parallel)
    return LocalModel(f"local:{stated.model or file.stem}", stated, server_for(order), parallel)


def require_library(name: str) -> None:
    if importlib.util.find_spec("xllamacpp") is None:
        raise Misuse(f"model '{name}' is served here, which needs a library: pip install 'loopty[local]'")


def gguf_file(name: str, stated: ModelSpec, environ: Mapping[str, str]) -> Path:
    """The file with the weights. Raises Misuse when there is none."""
    if stated.file:
        file = Path(stated.file).expanduser()
        if not file.is_file():
            raise Misuse(f"model '{name}': there is no file {file}: `file` is the path of the GGUF file")
        return file
    if not stated.model:
        raise Misuse(f'model \'{name}\' is local: name its weights, file = "PATH.gguf" or model = "smollm2"')
    file = weights_file(stated.model, environ)
    if not file.is_file():
        raise Misuse(f"the weights of {stated.model} are not here yet: loopty models --fetch {stated.model}")
    return file


def context_of(file: Path, stated: ModelSpec) -> int:
    """How many tokens the model sees at once: no more than it was trained for."""
    return min(stated.window_tokens, context_length(file) or stated.window_tokens)


class LocalModel:
    """Asks the server of its file."""

    def __init__(self, name: str, stated: ModelSpec, server: LocalServer, parallel: int) -> None:
        self.name = name
        self._stated = stated
        self._server = server
        self._turn = asyncio.Semaphore(parallel)

    async def reply(self, prompt: Prompt) -> Reply:
        async with self._turn:  # the time that a request has begins when the server can take it up
            return await self._ask(prompt)

    async def _ask(self, prompt: Prompt) -> Reply:
        address = await self.server_address()
        try:
            async with asyncio.timeout(self._stated.timeout_seconds):
                code, body = await _post(address, self._request(prompt))
        except TimeoutError as error:
            seconds = self._stated.timeout_seconds
            said = f"{self.name} gave no reply within {seconds:g} s: give it a larger timeout_seconds"
            raise ModelFault(said, transient=True) from error
        except (OSError, EOFError, ValueError) as error:
            why = await asyncio.to_thread(self._server.stop)
            raise ModelFault(f"the server of {self.name} broke off: {why}", transient=True) from error
        if code != _OK:
            raise _fault(self.name, code, body)
        return _parse_reply(body)

    async def server_address(self) -> LocalAddress:
        """Waits while the file is loaded."""
        try:
            async with asyncio.timeout(self._stated.timeout_seconds):
                return await asyncio.to_thread(self._server.address)
        except TimeoutError as error:
            await asyncio.to_thread(self._server.stop)
            seconds = self._stated.timeout_seconds
            said = f"{self.name} was not loaded within {seconds:g} s: give it a larger timeout_seconds"
            raise ModelFault(said, transient=True) from error

    def _request(self, prompt: Prompt) -> dict[str, Any]:
        turns = [{"role": _SPEAKERS[turn.speaker], "content": turn.text} for turn in prompt.messages]
        request: dict[str, Any] = {
            "messages": [*([{"role": "system", "content": prompt.system}] if prompt.system else []), *turns],
            "max_tokens": prompt.longest_reply(self._stated.max_output_tokens),
            # What is written until then counts as cut off, and may be of use; a timeout would throw it away.
            "t_max_predict_ms": int(1000 * self._stated.timeout_seconds * _WRITING),
        }
        if self._stated.temperature is not None:
            request["temperature"] = self._stated.temperature
        if prompt.schema is not None:
            named = {"name": "reply", "schema": _bound_strings(prompt.schema), "strict": True}
            request["response_format"] = {"type": "json_schema", "json_schema": named}
        own = {key: value for key, value in self._stated.settings.items() if key not in _OF_THE_SERVER}
        return {**request, **own}


async def _post(address: LocalAddress, request: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
    """Ask for a chat completion; a caller who gives up closes the connection, and the server stops writing."""
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
    """The schema with an end to every string."""
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
    said = str(error.get("message", code))
    if error.get("type") == "exceed_context_size_error":
        said = (
            f"the prompt has {error['n_prompt_tokens']} tokens, and {name} sees {error['n_ctx']} at once: "
            "lower file_tokens or briefing.tokens under [proposer], or raise context_tokens if the model allows it"
        )
    return ModelFault(said, transient=code >= _SERVER_ERROR)


def _free_cores() -> int:
    """One is for loopty and its trials: threads that wait for a core which others use slow the model down."""
    return max(len(os.sched_getaffinity(0)) - 1, 1)


def _positive_integer(name: str, stated: ModelSpec, setting: str, default: int) -> int:
    value = stated.settings.get(setting, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise Misuse(f"model '{name}': settings.{setting} is a whole number above 0, not {value!r}")
    return value
