#!/usr/bin/env python3
"""Calls a loopty tool from a sandbox without sockets, through files. Stands alone: it is copied to `.loopty/tool`.

python3 .loopty/tool context
python3 .loopty/tool open hypothesis="an index in place of the scan" surface=lookup
python3 .loopty/tool submit '{"id": "1.3", "mode": "tune"}'
"""

import json
import os
import sys
import time
from pathlib import Path

_NUMBERS = ("words", "wait", "lines")
_LISTS = ("merge",)
_PATIENCE_SECONDS = 60.0
_PAUSE_SECONDS = 0.02


def call_of_words(tool: str, words: "list[str]", client: str = "") -> bytes:
    """The call as JSON: from `KEY=VALUE` words, from one JSON object, or from standard input for `-`."""
    if words == ["-"]:
        words = [sys.stdin.read()]
    if len(words) == 1 and words[0].lstrip().startswith("{"):
        try:
            arguments = json.loads(words[0])
        except ValueError:
            arguments = words[0]
    else:
        arguments = dict(map(_argument, words))
    call = {"tool": tool, "arguments": arguments, **({"client": client} if client else {})}
    return json.dumps(call).encode()


def _argument(word: str) -> "tuple[str, object]":
    key, _, value = word.partition("=")
    if key in _LISTS:
        return key, value.split(",")
    if key in _NUMBERS and value.isdecimal():
        return key, int(value)
    if key == "params":
        try:
            return key, json.loads(value)
        except ValueError:
            return key, value
    return key, value


def send_letter(mailbox: Path, call: bytes) -> "bytes | None":
    """The reply to a call, by files in the mailbox; None where nobody answers."""
    name = f"{os.getpid()}-{os.urandom(6).hex()}.json"
    draft, reply = mailbox / "in" / f".{name}", mailbox / "out" / name
    draft.write_bytes(call)
    draft.rename(mailbox / "in" / name)  # no half of it is read
    end = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < end:
        try:
            answer = reply.read_bytes()
            reply.unlink()
            return answer
        except FileNotFoundError:
            time.sleep(_PAUSE_SECONDS)
    return None


def main() -> int:
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print(__doc__)
        return 0
    mailbox = Path(__file__).resolve().with_name("mail")
    try:
        reply = send_letter(mailbox, call_of_words(sys.argv[1], sys.argv[2:], os.environ.get("LOOPTY_CLIENT", "")))
    except OSError as error:
        sys.stderr.write(f"loopty: no mailbox here ({error}): start `loopty tool --mailbox` outside the sandbox\n")
        return 2
    if reply is None:
        sys.stderr.write("loopty: no answer: start `loopty tool --mailbox` outside the sandbox\n")
        return 2
    found = json.loads(reply)
    print(found.get("error") or found.get("text", ""))
    return 1 if "error" in found else 0


if __name__ == "__main__":
    sys.exit(main())
