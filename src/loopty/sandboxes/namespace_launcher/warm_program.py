"""A warm process: it has imported the packages of a benchmark, and each trial starts as a copy of it.

It runs no file of the repository, and it reads nothing that a trial has written. It lives in a sandbox like that
of a trial; each copy gets namespaces of its own inside that.
"""

from __future__ import annotations

import _socket
import gc
import os
import sys

from loopty.sandboxes.namespace_launcher.command_copy import CommandCopy
from loopty.sandboxes.namespace_launcher.copies import Copies
from loopty.sandboxes.namespace_launcher.launch_order import (
    FAILED,
    read_warm_order,
    receive_descriptors,
)
from loopty.sandboxes.namespace_launcher.warm_imports import WarmImports

_MANY = 4096


def main(known_modules: set[str], program_folder: str) -> None:
    """Import what the order names and start copies until loopty closes the connection; returns in no process.

    `known_modules` are those of an interpreter that has just started.
    """
    channel = _socket.socket(fileno=os.dup(0))
    # The channel was the standard input and output: nothing that is imported may read or write it.
    with open(os.devnull, "r+b") as nothing:  # noqa: PTH123 - see the other modules
        os.dup2(nothing.fileno(), 0)
        os.dup2(nothing.fileno(), 1)
    launcher_order, warm_order = receive_descriptors(channel)
    order = read_warm_order(warm_order)
    copies = Copies(launcher_order)
    imports = WarmImports(known_modules, order)
    sys.path.remove(program_folder)
    if problem := imports.load():
        channel.send(FAILED + problem.encode(errors="replace")[:_MANY])
        os._exit(0)
    imports.finish()
    command = CommandCopy(imports, order)
    # Memory that is not touched again is not copied for each trial.
    gc.collect()
    gc.freeze()
    command.become(copies.serve(channel, command))
