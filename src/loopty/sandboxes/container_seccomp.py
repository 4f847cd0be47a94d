"""The engine's own system call filter, narrowed: no socket to the hypervisor, no file with a set-id bit."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from loopty.kit.temporary_top import temporary_top
from loopty.sandboxes.seccomp import CREATES, FORGETS, MODES, OPENS, SET_ID

_UNIX, _INET, _INET6, _NETLINK, _AUDIT = 1, 2, 10, 16, 9
# A filter cannot see which sockets a 32-bit program makes by `socketcall`; such a program can use `socket`, too.
_REPLACED = {"socket", "socketcall", *MODES, *OPENS, *FORGETS, "openat2", "process_madvise"}
_ENOSYS = 38


def narrow_profile(profile: str) -> str | None:
    """The profile, in the engines' JSON, without what loopty forbids; None for a profile of another kind.

    AF_VSOCK ignores network namespaces, and the profiles of some engines allow it.
    """
    fields: dict[str, Any] = json.loads(profile)
    # Such a profile names what it allows and refuses all the rest.
    if fields["defaultAction"] != "SCMP_ACT_ERRNO":
        return None
    rules = (
        {**rule, "names": [name for name in rule["names"] if name not in _REPLACED]} for rule in fields["syscalls"]
    )
    sockets = [_socket_rule(_condition(0, "EQ", family)) for family in (_UNIX, _INET, _INET6)]
    sockets.append(_socket_rule(_condition(0, "EQ", _NETLINK), _condition(2, "NE", _AUDIT)))
    # As in loopty's own filter: the mode of openat2 is behind a pointer, and programs use openat without it.
    absent = {"names": ["openat2", "process_madvise"], "action": "SCMP_ACT_ERRNO", "errnoRet": _ENOSYS}
    by_default = fields.get("defaultErrnoRet") == _ENOSYS
    own = (*sockets, *_rules_without_set_id(), *_rules_for_advice(), *(() if by_default else (absent,)))
    return json.dumps({**fields, "syscalls": [*(rule for rule in rules if rule["names"]), *own]})


def _rules_without_set_id() -> Iterator[dict[str, Any]]:
    """Allow the calls that give files their modes, without the bits that make others the owner."""
    for name, (_, mode) in MODES.items():
        yield _allow(name, _without(mode, SET_ID))
    for name, (_, flags) in OPENS.items():
        yield _allow(name, _without(flags, CREATES))
        yield _allow(name, _without(flags + 1, SET_ID))


def _rules_for_advice() -> Iterator[dict[str, Any]]:
    """Let advice to forget what is in memory of files succeed without any effect."""
    for name, (_, argument, values) in FORGETS.items():
        yield _allow(name, _condition(argument, "LT", min(values)))
        yield _allow(name, _condition(argument, "GT", max(values)))
        for value in values:
            condition = _condition(argument, "EQ", value)
            yield {"names": [name], "action": "SCMP_ACT_ERRNO", "errnoRet": 0, "args": [condition]}


def write_profile(profile: str) -> tuple[str, Callable[[], None]]:
    """Write the narrowed profile to a file; returns its path, or "" without a file, and how to remove it."""
    try:
        text = narrow_profile(Path(profile).read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError):
        text = None
    if text is None:
        return "", lambda: None
    descriptor, path = tempfile.mkstemp(prefix="loopty-seccomp-", suffix=".json", dir=temporary_top())
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    owner = os.getpid()

    def remove() -> None:
        # A forked child inherits this function, but the file is its parent's.
        if os.getpid() == owner:
            with contextlib.suppress(OSError):
                Path(path).unlink()

    return path, remove


def _socket_rule(*conditions: dict[str, Any]) -> dict[str, Any]:
    return _allow("socket", *conditions)


def _allow(name: str, *conditions: dict[str, Any]) -> dict[str, Any]:
    return {"names": [name], "action": "SCMP_ACT_ALLOW", "args": list(conditions)}


def _without(index: int, bits: int) -> dict[str, Any]:
    """That an argument has none of these bits."""
    return {"index": index, "value": bits, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}


def _condition(index: int, comparison: str, value: int) -> dict[str, Any]:
    return {"index": index, "value": value, "op": f"SCMP_CMP_{comparison}"}
