"""The arguments of a tool as words of a command line. Stands alone: it is copied into sandboxes."""

import json
import sys

_NUMBERS = ("words", "wait", "lines")
_LISTS = ("merge",)


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
