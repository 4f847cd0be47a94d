"""A child process that serves one GGUF file to its parent, and ends with it."""

from __future__ import annotations

import fcntl
import json
import os
import select
import sys
from typing import Any

_PROMPT_CACHE_MB = 256
"""Memory for earlier prompts, so that a common beginning is processed once."""


def main() -> None:
    """Read the order from stdin, answer on stdout with the port or the error, serve until stdin is closed."""
    order = json.loads(sys.stdin.buffer.readline())
    _end_with_the_parent()
    answer = os.dup(1)
    os.dup2(2, 1)  # output of the library must not be taken for the answer
    try:
        server = _start_server(order)
    except Exception as error:  # noqa: BLE001 - the process ends here, with one line that says why
        os.write(answer, f"{type(error).__name__}: {error}\n".encode())
        sys.exit(1)
    os.write(answer, server.listening_address.rpartition(":")[2].encode() + b"\n")
    os.close(answer)
    sys.stdin.buffer.read()
    os._exit(0)  # threads of the library may still be running


def _end_with_the_parent() -> None:
    # Loading blocks the interpreter, so that no thread could watch. The kernel can: a pipe whose last writer is
    # gone sends SIGIO, which ends a process that does not handle it.
    fcntl.fcntl(0, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(0, fcntl.F_SETFL, fcntl.fcntl(0, fcntl.F_GETFL) | os.O_ASYNC)
    if select.select([0], [], [], 0)[0]:
        os._exit(0)  # the parent was already gone


def _start_server(order: dict[str, Any]) -> Any:
    """Start the library's server, which runs as long as the returned object lives."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = order["file"]
    params.n_ctx = order["context"] * order["parallel"]  # the library divides it
    params.n_parallel = order["parallel"]
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = order["threads"]
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [order["key"]]
    params.ui = params.endpoint_slots = params.endpoint_props = False
    params.offline = True
    params.verbosity = 1  # errors
    params.cache_ram_mib = _PROMPT_CACHE_MB
    return xllamacpp.Server(params)


if __name__ == "__main__":
    main()
