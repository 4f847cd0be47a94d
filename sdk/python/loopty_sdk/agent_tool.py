#!/usr/bin/env python3
"""Calls a loopty tool from inside a sandbox, in which loopty itself cannot run.

loopty tool context
loopty tool try command="pytest -q"
loopty tool show id=1.2 what=diff
loopty tool wait id=1.2

The tools: context, open, try, check, submit, wait, show, note, manage. An agent that loopty started has one draft,
its files: it needs no open, gives no id of a draft, and submits with mode=tune only.

Stands alone: a copy of it is `loopty` in the sandbox of an agent that loopty started, and calls at the socket in
LOOPTY_TOOLS_SOCKET; another is `.loopty/tool`, for sandboxes without sockets, and calls by files beside it.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from pathlib import Path

_PATIENCE_SECONDS = 130.0
_PAUSE_SECONDS = 0.02
_MISUSE = 2


def call_of_words(tool: str, words: list[str], client: str = "") -> bytes:
    """Read a call from `NAME=VALUE` words, from one JSON object, or from standard input for `-`, as JSON.

    A word alone is the id. Values stay texts: the tool reads them as what it takes.
    """
    if words == ["-"]:
        words = [sys.stdin.read()]
    arguments: object
    if len(words) == 1 and words[0].lstrip().startswith("{"):
        try:
            arguments = json.loads(words[0])
        except ValueError:
            arguments = words[0]  # the tool refuses it, with a remedy
    else:
        arguments = dict(map(_argument, words))
    call = {"tool": tool, "arguments": arguments, **({"client": client} if client else {})}
    return json.dumps(call).encode()


def _argument(word: str) -> tuple[str, str]:
    name, equals, value = word.partition("=")
    return (name, value) if equals or word.startswith("-") else ("id", word)


def main(words: list[str]) -> int:
    if words[:1] == ["tool"]:
        words = words[1:]
    if not words or words[0] in ("-h", "--help"):
        print((__doc__ or "").partition("\n\nStands alone")[0])
        return 0
    call = call_of_words(words[0], words[1:], os.environ.get("LOOPTY_CLIENT", ""))
    try:
        if address := os.environ.get("LOOPTY_TOOLS_SOCKET"):
            reply = json.loads(_answer(address, call))
        else:
            reply = json.loads(_answer_by_letter(Path(__file__).resolve().with_name("mail"), call))
    except (OSError, ValueError) as error:
        sys.stderr.write(f"loopty: {_remedy()} ({error})\n")
        return _MISUSE
    print(reply.get("error") or reply.get("text", ""))
    return 1 if "error" in reply else 0


def _remedy() -> str:
    if "LOOPTY_TOOLS_SOCKET" in os.environ:
        return "no answer: the tools are gone with their session; continue without them"
    return "no answer: start `loopty tool --mailbox` outside the sandbox"


def _answer(address: str, call: bytes) -> bytes:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(address)
        connection.sendall(call + b"\n")
        return b"".join(iter(lambda: connection.recv(1 << 16), b""))


def _answer_by_letter(mailbox: Path, call: bytes) -> bytes:
    """The reply, by files in the mailbox. Raises OSError when there is none."""
    name = f"{os.getpid()}-{os.urandom(6).hex()}.json"
    unsent, reply = mailbox / f"in/.{name}", mailbox / f"out/{name}"
    unsent.write_bytes(call)
    unsent.rename(mailbox / f"in/{name}")  # a letter that is half written is not read
    end = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < end:
        try:
            answer = reply.read_bytes()
            reply.unlink()
            return answer
        except FileNotFoundError:
            time.sleep(_PAUSE_SECONDS)
    raise TimeoutError(f"nothing came within {_PATIENCE_SECONDS:g} s")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
