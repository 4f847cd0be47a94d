"""Parses the requests of an isolated benchmark: one packet of JSON each, accepted only when it is valid.

{"start": {"argv": [...], "env": {...}, "seconds": 5.0, "memory_mb": 512, "held": true}}    only argv is required
{"read": {"path": "kernel.c", "limit": 65536}}
{"timed": "0123…"}    candidates were timed, and this is the digest of what they were asked

Once a candidate is started, the same connection carries {"freeze": true} and {"freeze": false}: stop all its
processes, and let them go on. One that is held starts when it is first to go on.

In argv, `loopty:serve` is replaced by the path at which the candidate sees the SDK's server of functions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loopty.kit import untrusted_files
from loopty.kit.records import Record
from loopty.kit.untrusted_files import Unreadable

LARGEST_REQUEST = 1 << 16
SERVER = "loopty:serve"
_LARGEST_FILE = 64 << 20
_LONGEST_DIGEST = 128


class StartRequest(Record):
    """Start the candidate."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    seconds: float
    memory_mb: int
    held: bool
    """Whether it starts only when the benchmark first lets it go on."""


class ReadRequest(Record):
    """Return the bytes of one of the candidate's files."""

    path: str
    limit: int


class TimedRequest(Record):
    """Note that candidates were timed."""

    inputs: str
    """A digest of what they were asked."""


def parse_request(raw: bytes, seconds: float, memory_mb: int) -> StartRequest | ReadRequest | TimedRequest:
    """The request. A start gets at most this time and memory, and exactly that by default. Raises Unreadable."""
    match untrusted_files.json_object(raw):
        case {"start": dict(fields), **rest} if not rest:
            defaults = {"env": {}, "seconds": seconds, "memory_mb": memory_mb, "held": False}
            return _parse_start({**defaults, **fields}, seconds, memory_mb)
        case {"read": {"path": str(path), "limit": int(limit), **more}, **rest} if not rest and not more:
            if not 0 <= limit <= _LARGEST_FILE:
                raise Unreadable(f"has a limit that is not between 0 and {_LARGEST_FILE}")
            return ReadRequest(path, limit)
        case {"timed": str(inputs), **rest} if not rest and inputs.isalnum() and len(inputs) <= _LONGEST_DIGEST:
            return TimedRequest(inputs)
        case _:
            raise Unreadable("is neither a start nor a read, nor a digest of inputs")


def parse_freeze(raw: bytes) -> bool:
    """Whether the processes of a started candidate are to be stopped, or to go on. Raises Unreadable."""
    match untrusted_files.json_object(raw):
        case {"freeze": bool(wanted), **rest} if not rest:
            return wanted
        case _:
            raise Unreadable("is not a freeze, and the candidate is started already")


def _parse_start(fields: Mapping[str, Any], seconds: float, memory_mb: int) -> StartRequest:
    match fields:
        case {
            "argv": [_, *_] as argv,
            "env": dict(env),
            "seconds": requested,
            "memory_mb": memory,
            "held": bool(held),
            **rest,
        } if not rest:
            pass
        case _:
            raise Unreadable("is not a valid start: it takes argv and optionally env, seconds, memory_mb and held")
    # A NUL would end the word, and the rest would be read as an option of the sandbox.
    if not all(isinstance(word, str) and "\0" not in word for word in (*argv, *env, *env.values())):
        raise Unreadable("has an argument or a variable that is not text")
    if not all(name and "=" not in name for name in env):
        raise Unreadable("has a variable with an invalid name")
    if type(requested) not in (int, float) or requested <= 0:
        raise Unreadable("has seconds that are not a positive number")
    if type(memory) is not int or not 0 < memory <= memory_mb:
        raise Unreadable(f"asks for {memory!r:.20} MB, but the task allows {memory_mb}")
    return StartRequest(tuple(argv), env, min(float(requested), seconds), memory, held)
