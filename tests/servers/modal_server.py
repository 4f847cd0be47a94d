"""A server of Modal's protocol on this machine: the real client talks to it, and nothing is rented."""

from __future__ import annotations

import asyncio
import pickle
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol

import grpclib
import grpclib.server
from google.protobuf.empty_pb2 import Empty
from modal_proto import api_grpc
from modal_proto import api_pb2 as api

EXIT_CODE = 124
_SUCCESS = api.GenericResult(status=api.GenericResult.GENERIC_STATUS_SUCCESS)
_ENVIRONMENT = api.EnvironmentMetadata(
    name="main", settings=api.EnvironmentSettings(image_builder_version="2025.06")
)
_HANDLE = api.FunctionHandleMetadata(function_name="worker")
_RESULT = api.GenericResult(status=api.GenericResult.GENERIC_STATUS_SUCCESS, data=pickle.dumps(EXIT_CODE))


def _create_function(request: Any) -> Any:
    ranked = api.FunctionData.RankedFunction(function=request.function)
    return api.FunctionCreateResponse(
        function_id="fu-1", handle_metadata=_HANDLE, function_data=api.FunctionData(ranked_functions=[ranked])
    )


_ANSWERS: Mapping[str, Callable[[Any], Any]] = {
    "ClientHello": lambda _: api.ClientHelloResponse(),
    "AppCreate": lambda _: api.AppCreateResponse(app_id="ap-1"),
    "AppHeartbeat": lambda _: Empty(),
    "AppPublish": lambda _: api.AppPublishResponse(),
    "AppClientDisconnect": lambda _: Empty(),
    "AppGetLogs": lambda _: api.TaskLogsBatch(app_done=True),
    "EnvironmentGetOrCreate": lambda _: api.EnvironmentGetOrCreateResponse(
        environment_id="en-1", metadata=_ENVIRONMENT
    ),
    "ImageGetOrCreate": lambda _: api.ImageGetOrCreateResponse(image_id="im-1", result=_SUCCESS),
    "MountGetOrCreate": lambda _: api.MountGetOrCreateResponse(mount_id="mo-1"),
    "SecretGetOrCreate": lambda _: api.SecretGetOrCreateResponse(secret_id="st-1"),
    "FunctionPrecreate": lambda _: api.FunctionPrecreateResponse(function_id="fu-1", handle_metadata=_HANDLE),
    "FunctionCreate": _create_function,
    "FunctionMap": lambda _: api.FunctionMapResponse(
        function_call_id="fc-1", pipelined_inputs=[api.FunctionPutInputsResponseItem(input_id="in-1")]
    ),
    "FunctionGetOutputs": lambda _: api.FunctionGetOutputsResponse(
        outputs=[api.FunctionGetOutputsItem(input_id="in-1", result=_RESULT, data_format=api.DATA_FORMAT_PICKLE)]
    ),
    "FunctionCallCancel": lambda _: Empty(),
}


class ModalServer:
    """Remembers every request; answers those that a worker's container needs."""

    def __init__(self, *, is_endless: bool = False) -> None:
        self._is_endless = is_endless
        self._requests: list[tuple[str, Any]] = []
        self.runs = asyncio.Event()
        """Set when somebody waits for the function's result."""

    def all_requests(self) -> list[tuple[str, Any]]:
        return list(self._requests)

    def requests(self, name: str) -> list[Any]:
        return [request for method, request in self._requests if method == name]

    def __mapping__(self) -> Any:
        base = api_grpc.ModalClientBase
        service = type("Service", (base,), {name: self._method(name) for name in base.__abstractmethods__})
        return service().__mapping__()

    def _method(self, name: str) -> Any:
        async def answer(_service: Any, stream: Any) -> None:
            request = await stream.recv_message()
            self._requests.append((name, request))
            if name == "FunctionGetOutputs":
                self.runs.set()
                if self._is_endless:
                    await asyncio.Event().wait()
            if name not in _ANSWERS:
                raise grpclib.GRPCError(grpclib.Status.UNIMPLEMENTED, f"{name} is not answered here")
            await stream.send_message(_ANSWERS[name](request))

        return answer


class Environment(Protocol):
    """Where variables are set: pytest's `monkeypatch`."""

    def setenv(self, name: str, value: str) -> None: ...


def log_in(environment: Environment, server: str, token: str, secret: str) -> None:
    """Whatever login this user has at Modal, the client uses these."""
    for name, value in {"SERVER_URL": server, "TOKEN_ID": token, "TOKEN_SECRET": secret}.items():
        environment.setenv(f"MODAL_{name}", value)


@asynccontextmanager
async def serve_modal(environment: Environment, *, is_endless: bool = False) -> AsyncIterator[ModalServer]:
    """Have the client of this process talk to such a server, under a login that is worth nothing elsewhere."""
    from modal.client import Client

    service = ModalServer(is_endless=is_endless)
    server = grpclib.server.Server([service])
    listener = socket.create_server(("127.0.0.1", 0))
    await server.start(sock=listener)
    log_in(environment, f"http://127.0.0.1:{listener.getsockname()[1]}", "ak-none", "as-none")
    client = await Client.from_env.aio()
    try:
        yield service
    finally:
        await client._close.aio()
        server.close()
        await server.wait_closed()
