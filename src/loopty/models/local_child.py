"""Serves one GGUF file to the process that started this one, and ends with it."""

from __future__ import annotations

import fcntl
import json
import os
import select
import sys
from typing import Any

_PROMPTS_MB = 256
"""Memory for prompts read before, so that those that begin alike are read once."""


def main() -> None:
    """Take the order from stdin, answer with the port on stdout, serve until stdin is closed."""
    order = json.loads(sys.stdin.buffer.readline())
    _end_with_the_parent()
    answer = os.dup(1)
    os.dup2(2, 1)  # whatever the library prints must not be taken for the answer
    try:
        server = _start_server(order)
    except Exception as error:  # noqa: BLE001 - the end of the process, told in one line
        sys.exit(f"{type(error).__name__}: {error}")
    os.write(answer, server.listening_address.rpartition(":")[2].encode() + b"\n")
    os.close(answer)
    sys.stdin.buffer.read()
    os._exit(0)  # threads of the library may be at work


def _end_with_the_parent() -> None:
    # Loading holds the interpreter, so that no thread could watch. The kernel can: a pipe whose last writer is
    # gone sends SIGIO, which ends a process that does not handle it.
    fcntl.fcntl(0, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(0, fcntl.F_SETFL, fcntl.fcntl(0, fcntl.F_GETFL) | os.O_ASYNC)
    if select.select([0], [], [], 0)[0]:
        os._exit(0)  # it was gone before


def _start_server(order: dict[str, Any]) -> Any:
    """The library's server: it answers for as long as it is held."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = order["file"]
    params.n_ctx = order["context"] * order["parallel"]  # the library shares it out
    params.n_parallel = order["parallel"]
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = order["threads"]
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [order["key"]]
    params.ui = params.endpoint_slots = params.endpoint_props = False
    params.offline = True
    params.verbosity = 1  # errors
    params.cache_ram_mib = _PROMPTS_MB
    return xllamacpp.Server(params)


if __name__ == "__main__":
    main()
