"""A server of Modal's protocol on this machine: the real client talks to it, and nothing is rented.

`python modal_server.py [--endless] COMMAND…`, under a Python that has Modal, runs the command with the server as
its Modal. It prints, as JSON, the requests, what the command said and its exit code. With `--endless` the worker
never ends, and the command gets SIGTERM once it waits for that.
"""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import socket
import sys
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import Callable, Mapping
from typing import Any

import grpclib
import grpclib.server
from google.protobuf.empty_pb2 import Empty
from google.protobuf.json_format import MessageToDict
from modal_proto import api_grpc
from modal_proto import api_pb2 as api

LAST_LINE = "no driver came back for 120 s"
_SUCCESS = api.GenericResult(status=api.GenericResult.GENERIC_STATUS_SUCCESS)
_ENVIRONMENT = api.EnvironmentMetadata(
    name="main", settings=api.EnvironmentSettings(image_builder_version="2025.06")
)
_HANDLE = api.FunctionHandleMetadata(function_name="worker")
_RESULT = api.GenericResult(status=api.GenericResult.GENERIC_STATUS_SUCCESS, data=pickle.dumps(LAST_LINE))


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
    "MountBatchedCheckExistence": lambda _: api.MountBatchedCheckExistenceResponse(),
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
        self.requests: list[tuple[str, Any]] = []
        self.runs = asyncio.Event()
        """Set when somebody waits for the function's result."""

    def __mapping__(self) -> Any:
        base = api_grpc.ModalClientBase
        service = type("Service", (base,), {name: self._method(name) for name in base.__abstractmethods__})
        return service().__mapping__()

    def _method(self, name: str) -> Any:
        async def answer(_service: Any, stream: Any) -> None:
            request = await stream.recv_message()
            self.requests.append((name, request))
            if name == "FunctionGetOutputs":
                self.runs.set()
                if self._is_endless:
                    await asyncio.Event().wait()
            if name not in _ANSWERS:
                raise grpclib.GRPCError(grpclib.Status.UNIMPLEMENTED, f"{name} is not answered here")
            await stream.send_message(_ANSWERS[name](request))

        return answer


async def main(words: list[str]) -> None:
    service = ModalServer(is_endless="--endless" in words)
    server = grpclib.server.Server([service])
    listener = socket.create_server(("127.0.0.1", 0))
    await server.start(sock=listener)
    # Whatever login this user has at Modal, the client uses these.
    login = {
        "SERVER_URL": f"http://127.0.0.1:{listener.getsockname()[1]}",
        "TOKEN_ID": "ak-1",
        "TOKEN_SECRET": "as-1",
    }
    process = await asyncio.create_subprocess_exec(
        *(word for word in words if word != "--endless"),
        env={**os.environ, **{f"MODAL_{name}": value for name, value in login.items()}},
        stdout=PIPE,
        stderr=STDOUT,
    )
    if "--endless" in words:
        await service.runs.wait()
        process.terminate()
    said, _ = await process.communicate()
    server.close()
    requests = [[name, MessageToDict(request)] for name, request in service.requests]
    print(json.dumps({"requests": requests, "said": said.decode(), "code": process.returncode}))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
