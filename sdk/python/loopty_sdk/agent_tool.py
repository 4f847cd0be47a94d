"""`loopty tool …` inside the sandbox of a coding agent: one call at the socket in LOOPTY_TOOLS_SOCKET.

loopty tool context
loopty tool try command="pytest -q"
loopty tool show id=1.2 what=diff
"""

from __future__ import annotations

import json
import os
import socket
import sys

_NUMBERS = ("words", "wait", "lines")
_MISUSE = 2


def main(words: list[str]) -> int:
    if words[:1] == ["tool"]:
        words = words[1:]
    if not words or words[0] in ("-h", "--help"):
        print(__doc__)
        return 0
    try:
        reply = json.loads(_answer(json.dumps({"tool": words[0], "arguments": _arguments(words[1:])})))
    except (KeyError, OSError, ValueError) as error:
        sys.stderr.write(f"loopty: nobody answers here ({error}); go on without\n")
        return _MISUSE
    print(reply.get("error") or reply.get("text", ""))
    return 1 if "error" in reply else 0


def _arguments(words: list[str]) -> object:
    if len(words) == 1 and words[0].lstrip().startswith("{"):
        return json.loads(words[0])
    pairs = (word.partition("=") for word in words)
    return {key: int(value) if key in _NUMBERS and value.isdecimal() else value for key, _, value in pairs}


def _answer(call: str) -> bytes:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(os.environ["LOOPTY_TOOLS_SOCKET"])
        connection.sendall(call.encode() + b"\n")
        parts = iter(lambda: connection.recv(1 << 16), b"")
        return b"".join(parts)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
